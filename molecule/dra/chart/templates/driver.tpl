apiVersion: resource.k8s.io/v1
kind: DeviceClass
metadata:
  name: gpu.molecule.bedplate.dev
spec:
  selectors:
    - cel: {expression: "device.driver == 'gpu.molecule.bedplate.dev'"}
---
apiVersion: apps/v1
kind: DaemonSet
metadata:
  name: {{ .Release.Name }}-kubeletplugin
  namespace: {{ .Release.Namespace }}
spec:
  selector: {matchLabels: {app: dra}}
  template:
    metadata: {labels: {app: dra}}
    spec:
      affinity: {{ toYaml .Values.kubeletPlugin.affinity | nindent 8 }}
      containers:
        - {name: plugin, image: registry.k8s.io/pause:3.10.2}
