module bedplate.dev/lab/components/cilium

go 1.26.0

// Only for the chart that the module carries (install/kubernetes/cilium); nothing of it is built.
require github.com/cilium/cilium v1.18.2
