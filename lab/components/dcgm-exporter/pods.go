// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

const (
	podResourcesSocket  = "unix:///var/lib/kubelet/pod-resources/kubelet.sock"
	podResourcesTimeout = 5 * time.Second
	resourcePrefix      = "nvidia.com/"
)

// pod is who uses a device.
type pod struct {
	namespace, name, container string
}

// labels are those the DCGM exporter adds under Kubernetes; empty ones for a device nobody uses.
func (p pod) labels(kubernetes bool) string {
	if !kubernetes {
		return ""
	}
	return fmt.Sprintf(`,container="%s",namespace="%s",pod="%s"`, p.container, p.namespace, p.name)
}

// listPods asks the kubelet which containers have which devices, by UUID; one of several users of a shared device.
func listPods() (map[string]pod, error) {
	connection, err := grpc.NewClient(podResourcesSocket, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer func() { _ = connection.Close() }()
	ctx, cancel := context.WithTimeout(context.Background(), podResourcesTimeout)
	defer cancel()
	answer, err := podresources.NewPodResourcesListerClient(connection).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, err
	}
	users := map[string]pod{}
	for _, one := range answer.GetPodResources() {
		for _, container := range one.GetContainers() {
			for _, device := range container.GetDevices() {
				if !strings.HasPrefix(device.GetResourceName(), resourcePrefix) {
					continue
				}
				for _, id := range device.GetDeviceIds() {
					// Replicas of a time-sliced device are called UUID::number.
					uuid, _, _ := strings.Cut(id, "::")
					users[uuid] = pod{one.GetNamespace(), one.GetName(), container.GetName()}
				}
			}
		}
	}
	return users, nil
}
