module bedplate.dev/lab/components/go-nvml

go 1.26.0

// Only for the header that the module carries (gen/nvml/nvml.h); nothing of it is built.
require github.com/NVIDIA/go-nvml v0.13.4-1
