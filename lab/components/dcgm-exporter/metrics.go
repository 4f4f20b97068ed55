// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"log"
	"net/http"
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const mebibyte = 1 << 20

// exporter answers scrapes from what NVML says at that moment.
type exporter struct {
	library  nvml.Interface
	hostname string
	xids     *xids
	pods     func() (map[string]pod, error)
}

// metric is one of DCGM's fields: its name, Prometheus type and help, and how NVML gives it for a whole GPU.
type metric struct {
	name, kind, help string
	read             func(device nvml.Device) (float64, nvml.Return)
}

// Names, types and texts are those of the DCGM exporter's default-counters.csv.
var metrics = []metric{
	{"DCGM_FI_DEV_SM_CLOCK", "gauge", "SM clock frequency (in MHz).", clock(nvml.CLOCK_SM)},
	{"DCGM_FI_DEV_MEM_CLOCK", "gauge", "Memory clock frequency (in MHz).", clock(nvml.CLOCK_MEM)},
	{"DCGM_FI_DEV_MEMORY_TEMP", "gauge", "Memory temperature (in C).", field(nvml.FI_DEV_MEMORY_TEMP)},
	{"DCGM_FI_DEV_GPU_TEMP", "gauge", "GPU temperature (in C).", func(device nvml.Device) (float64, nvml.Return) {
		value, result := device.GetTemperature(nvml.TEMPERATURE_GPU)
		return float64(value), result
	}},
	{"DCGM_FI_DEV_POWER_USAGE", "gauge", "Power draw (in W).", func(device nvml.Device) (float64, nvml.Return) {
		milliwatts, result := device.GetPowerUsage()
		return float64(milliwatts) / 1000, result
	}},
	{"DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "counter", "Total energy consumption since boot (in mJ).",
		func(device nvml.Device) (float64, nvml.Return) {
			value, result := device.GetTotalEnergyConsumption()
			return float64(value), result
		}},
	{"DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "counter", "Total number of PCIe retries.",
		func(device nvml.Device) (float64, nvml.Return) {
			value, result := device.GetPcieReplayCounter()
			return float64(value), result
		}},
	{"DCGM_FI_DEV_GPU_UTIL", "gauge", "GPU utilization (in %).", func(device nvml.Device) (float64, nvml.Return) {
		value, result := device.GetUtilizationRates()
		return float64(value.Gpu), result
	}},
	{"DCGM_FI_DEV_MEM_COPY_UTIL", "gauge", "Memory utilization (in %).", func(device nvml.Device) (float64, nvml.Return) {
		value, result := device.GetUtilizationRates()
		return float64(value.Memory), result
	}},
	{"DCGM_FI_DEV_ECC_SBE_VOL_TOTAL", "counter", "Total number of single-bit volatile ECC errors.",
		field(nvml.FI_DEV_ECC_SBE_VOL_TOTAL)},
	{"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL", "counter", "Total number of double-bit volatile ECC errors.",
		field(nvml.FI_DEV_ECC_DBE_VOL_TOTAL)},
	{"DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for uncorrectable errors",
		field(nvml.FI_DEV_REMAPPED_UNC)},
	{"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "counter", "Number of remapped rows for correctable errors",
		field(nvml.FI_DEV_REMAPPED_COR)},
	{"DCGM_FI_DEV_ROW_REMAP_FAILURE", "gauge", "Whether remapping of rows has failed", field(nvml.FI_DEV_REMAPPED_FAILURE)},
	{"DCGM_FI_DEV_ROW_REMAP_PENDING", "gauge", "Whether remapping of rows is pending", field(nvml.FI_DEV_REMAPPED_PENDING)},
	// What the profiling fields measure, as far as utilization tells.
	{"DCGM_FI_PROF_GR_ENGINE_ACTIVE", "gauge", "Ratio of time the graphics engine is active.",
		func(device nvml.Device) (float64, nvml.Return) {
			value, result := device.GetUtilizationRates()
			return float64(value.Gpu) / 100, result
		}},
}

const (
	framebufferUsed = "DCGM_FI_DEV_FB_USED"
	framebufferFree = "DCGM_FI_DEV_FB_FREE"
	framebufferKept = "DCGM_FI_DEV_FB_RESERVED"
	xidErrors       = "DCGM_FI_DEV_XID_ERRORS"
)

var framebufferHelp = map[string]string{
	framebufferFree: "Framebuffer memory free (in MiB).",
	framebufferUsed: "Framebuffer memory used (in MiB).",
	framebufferKept: "Framebuffer memory reserved (in MiB).",
	xidErrors:       "Value of the last XID error encountered.",
}

func clock(kind nvml.ClockType) func(nvml.Device) (float64, nvml.Return) {
	return func(device nvml.Device) (float64, nvml.Return) {
		value, result := device.GetClockInfo(kind)
		return float64(value), result
	}
}

func field(id uint32) func(nvml.Device) (float64, nvml.Return) {
	return func(device nvml.Device) (float64, nvml.Return) {
		values := []nvml.FieldValue{{FieldId: id}}
		if result := device.GetFieldValues(values); result != nvml.SUCCESS {
			return 0, result
		}
		var value uint32
		for i := range 4 {
			value |= uint32(values[0].Value[i]) << (8 * i)
		}
		return float64(value), nvml.Return(values[0].NvmlReturn)
	}
}

// page collects samples by metric, in the order in which metrics come first.
type page struct {
	order   []string
	heads   map[string]string
	samples map[string][]string
}

func (p *page) add(name, kind, help, labels string, value float64) {
	if _, known := p.heads[name]; !known {
		p.order = append(p.order, name)
		p.heads[name] = fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
	p.samples[name] = append(p.samples[name], fmt.Sprintf("%s{%s} %g\n", name, labels, value))
}

func (p *page) String() string {
	var text strings.Builder
	for _, name := range p.order {
		text.WriteString(p.heads[name])
		for _, sample := range p.samples[name] {
			text.WriteString(sample)
		}
	}
	return text.String()
}

func (e *exporter) serveHealth(writer http.ResponseWriter, _ *http.Request) {
	if _, result := e.library.DeviceGetCount(); result != nvml.SUCCESS {
		http.Error(writer, fmt.Sprintf("KO: %v", result), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprint(writer, "OK")
}

func (e *exporter) serveMetrics(writer http.ResponseWriter, _ *http.Request) {
	count, result := e.library.DeviceGetCount()
	if result != nvml.SUCCESS {
		http.Error(writer, fmt.Sprintf("NVML: %v", result), http.StatusInternalServerError)
		return
	}
	users := map[string]pod{}
	if e.pods != nil {
		found, err := e.pods()
		if err != nil {
			log.Printf("pods: %v", err)
		} else {
			users = found
		}
	}
	p := &page{heads: map[string]string{}, samples: map[string][]string{}}
	for index := range count {
		device, result := e.library.DeviceGetHandleByIndex(index)
		if result != nvml.SUCCESS {
			// A lost GPU has no measurements; its last XID is told below.
			continue
		}
		e.addGpu(p, index, device, users)
	}
	e.addXids(p, users)
	fmt.Fprint(writer, p.String())
}

func (e *exporter) labels(index int, uuid string, device nvml.Device) string {
	info, _ := device.GetPciInfo()
	minor, _ := device.GetMinorNumber()
	name, _ := device.GetName()
	version, _ := e.library.SystemGetDriverVersion()
	return fmt.Sprintf(`gpu="%d",UUID="%s",pci_bus_id="%s",device="nvidia%d",modelName="%s",Hostname="%s",DCGM_FI_DRIVER_VERSION="%s"`,
		index, uuid, text(info.BusId[:]), minor, name, e.hostname, version)
}

func (e *exporter) addGpu(p *page, index int, device nvml.Device, users map[string]pod) {
	uuid, _ := device.GetUUID()
	labels := e.labels(index, uuid, device)
	e.xids.remember(uuid, labels)
	mine := labels + users[uuid].labels(e.pods != nil)
	for _, one := range metrics {
		if value, result := one.read(device); result == nvml.SUCCESS {
			p.add(one.name, one.kind, one.help, mine, value)
		}
	}
	if current, _, result := device.GetMigMode(); result != nvml.SUCCESS || current != nvml.DEVICE_MIG_ENABLE {
		addMemory(p, device, mine)
		return
	}
	most, _ := device.GetMaxMigDeviceCount()
	for i := range most {
		mig, result := device.GetMigDeviceHandleByIndex(i)
		if result != nvml.SUCCESS {
			continue
		}
		migUUID, _ := mig.GetUUID()
		name, _ := mig.GetName()
		instance, _ := mig.GetGpuInstanceId()
		_, profile, _ := strings.Cut(name, " MIG ")
		slice := fmt.Sprintf(`%s,GPU_I_PROFILE="%s",GPU_I_ID="%d"`, labels, profile, instance)
		addMemory(p, mig, slice+users[migUUID].labels(e.pods != nil))
	}
}

func addMemory(p *page, device nvml.Device, labels string) {
	memory, result := device.GetMemoryInfo_v2()
	if result != nvml.SUCCESS {
		return
	}
	p.add(framebufferFree, "gauge", framebufferHelp[framebufferFree], labels, float64(memory.Free/mebibyte))
	p.add(framebufferUsed, "gauge", framebufferHelp[framebufferUsed], labels, float64(memory.Used/mebibyte))
	p.add(framebufferKept, "gauge", framebufferHelp[framebufferKept], labels, float64(memory.Reserved/mebibyte))
}

func (e *exporter) addXids(p *page, users map[string]pod) {
	for _, one := range e.xids.all() {
		p.add(xidErrors, "gauge", framebufferHelp[xidErrors], one.labels+users[one.uuid].labels(e.pods != nil), float64(one.last))
	}
}

func text[T ~int8 | ~uint8](characters []T) string {
	var result strings.Builder
	for _, character := range characters {
		if character == 0 {
			break
		}
		result.WriteByte(byte(character))
	}
	return result.String()
}
