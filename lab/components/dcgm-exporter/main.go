// SPDX-License-Identifier: Apache-2.0

// An exporter of NVML's measurements under the names of NVIDIA's DCGM exporter, whose own module cannot be had: the same
// metrics, labels, port and paths, so that dashboards and alerts written for one work with the other.
package main

import (
	"flag"
	"log"
	"net/http"
	"os"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

const headerTimeout = 5 * time.Second

func main() {
	address := flag.String("a", environment("DCGM_EXPORTER_LISTEN", ":9400"), "address to listen on")
	kubernetes := flag.Bool("k", environment("DCGM_EXPORTER_KUBERNETES", "false") == "true", "name the pods that use a GPU")
	// Which metrics there are is fixed; deployments name a file of them all the same.
	flag.String("f", "", "file of metrics; not read")
	flag.String("collectors", "", "file of metrics; not read")
	flag.Parse()

	exporter := &exporter{library: nvml.New(), hostname: environment("NODE_NAME", hostname()), xids: newXids()}
	if *kubernetes {
		exporter.pods = listPods
	}
	if result := exporter.library.Init(); result != nvml.SUCCESS {
		log.Fatalf("NVML: %v; wanted a loaded driver and its library in the container", result)
	}
	go exporter.xids.watch(exporter.library)

	http.HandleFunc("/metrics", exporter.serveMetrics)
	http.HandleFunc("/health", exporter.serveHealth)
	log.Printf("listening on %s", *address)
	server := &http.Server{Addr: *address, ReadHeaderTimeout: headerTimeout}
	log.Fatal(server.ListenAndServe())
}

func environment(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}
