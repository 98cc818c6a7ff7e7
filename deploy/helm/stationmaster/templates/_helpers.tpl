{{/* Names are fixed: of what acts on a whole cluster there is one. */}}
{{- define "stationmaster.labels" -}}
app.kubernetes.io/name: stationmaster
app.kubernetes.io/part-of: stationmaster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{/* The namespaces in which nothing is done; ours and those of Kubernetes can never be locked. */}}
{{- define "stationmaster.namespaceSelector" -}}
matchExpressions:
- key: kubernetes.io/metadata.name
  operator: NotIn
  values:
  - kube-system
  - kube-public
  - kube-node-lease
  - {{ .Release.Namespace }}
  {{- range .Values.webhooks.excludedNamespaces }}
  - {{ . | quote }}
  {{- end }}
{{- end }}

{{- define "stationmaster.service" -}}
service:
  name: stationmaster
  namespace: {{ .Release.Namespace }}
  port: 443
{{- end }}

{{/* Where an update concerns us. */}}
{{- define "stationmaster.matchConditions" -}}
- name: not-being-deleted
  expression: "request.operation == 'DELETE' || !has(object.metadata.deletionTimestamp)"
- name: something-of-ours-changed
  expression: >-
    request.operation != 'UPDATE'
    || object.?spec != oldObject.?spec
    || object.metadata.?labels != oldObject.metadata.?labels
    || object.metadata.?annotations[?'stationmaster.dev/applied']
    != oldObject.metadata.?annotations[?'stationmaster.dev/applied']
    || object.metadata.?annotations[?'stationmaster.dev/podgroup-totals']
    != oldObject.metadata.?annotations[?'stationmaster.dev/podgroup-totals']
    || object.metadata.?annotations[?'stationmaster.dev/policies']
    != oldObject.metadata.?annotations[?'stationmaster.dev/policies']
- name: not-by-kueue
  expression: "request.userInfo.username != '{{ .Values.webhooks.kueueUser }}'"
{{- end }}

{{/* Whether Stationmaster itself says Fail, as replicas come and go: something, or nothing for no. */}}
{{- define "stationmaster.isArmed" -}}
{{- with .Values.webhooks }}
{{- if and (eq $.Values.certificates "self-managed") (eq .failurePolicy "Fail") (gt (int .failWithReplicas) 0) -}}
true
{{- end }}
{{- end }}
{{- end }}

{{/* To begin with, of the entries for new and changed TrainJobs. */}}
{{- define "stationmaster.failurePolicy" -}}
{{- if include "stationmaster.isArmed" . -}} Ignore {{- else -}} {{ .Values.webhooks.failurePolicy }} {{- end }}
{{- end }}

{{/* Of the webhook configurations. */}}
{{- define "stationmaster.annotations" -}}
{{- if eq .Values.certificates "cert-manager" }}
annotations:
  cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/stationmaster-serving
{{- else if include "stationmaster.isArmed" . }}
annotations:
  stationmaster.dev/fail-with-replicas: {{ .Values.webhooks.failWithReplicas | int | quote }}
{{- end }}
{{- end }}
