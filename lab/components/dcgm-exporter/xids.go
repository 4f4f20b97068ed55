// SPDX-License-Identifier: Apache-2.0

package main

import (
	"log"
	"sort"
	"sync"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const (
	eventWaitMilliseconds = 5000
	retry                 = 10 * time.Second
)

// xids keeps the last XID of every GPU seen, and the labels it had: a GPU that is lost cannot be asked any more.
type xids struct {
	mutex sync.Mutex
	known map[string]*xid
}

type xid struct {
	uuid, labels string
	last         uint64
}

func newXids() *xids {
	return &xids{known: map[string]*xid{}}
}

func (x *xids) remember(uuid, labels string) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if one, known := x.known[uuid]; known {
		one.labels = labels
	} else {
		x.known[uuid] = &xid{uuid: uuid, labels: labels}
	}
}

func (x *xids) report(uuid string, code uint64) {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	if one, known := x.known[uuid]; known {
		one.last = code
	} else {
		x.known[uuid] = &xid{uuid: uuid, last: code}
	}
}

// all returns what is known, by labels; GPUs that were never scraped have none and are left out.
func (x *xids) all() []xid {
	x.mutex.Lock()
	defer x.mutex.Unlock()
	found := make([]xid, 0, len(x.known))
	for _, one := range x.known {
		if one.labels != "" {
			found = append(found, *one)
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].labels < found[j].labels })
	return found
}

// watch waits for XIDs for ever.
func (x *xids) watch(library nvml.Interface) {
	for {
		if result := x.wait(library); result != nvml.SUCCESS {
			log.Printf("XID events: %v", result)
		}
		time.Sleep(retry)
	}
}

func (x *xids) wait(library nvml.Interface) nvml.Return {
	set, result := library.EventSetCreate()
	if result != nvml.SUCCESS {
		return result
	}
	defer func() { _ = set.Free() }()
	count, result := library.DeviceGetCount()
	if result != nvml.SUCCESS {
		return result
	}
	for index := range count {
		if device, result := library.DeviceGetHandleByIndex(index); result == nvml.SUCCESS {
			device.RegisterEvents(nvml.EventTypeXidCriticalError, set)
		}
	}
	for {
		event, result := set.Wait(eventWaitMilliseconds)
		if result == nvml.ERROR_TIMEOUT {
			continue
		}
		if result != nvml.SUCCESS {
			return result
		}
		if uuid, result := event.Device.GetUUID(); result == nvml.SUCCESS {
			x.report(uuid, event.EventData)
		}
	}
}
