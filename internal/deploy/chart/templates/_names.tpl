{{- define "eppctl.name" -}}
{{ default (printf "%s-epp" .Values.pool) .Values.name }}
{{- end }}

{{- define "eppctl.labels" -}}
app.kubernetes.io/name: eppctl
app.kubernetes.io/instance: {{ include "eppctl.name" . | toYaml }}
eppctl.dev/pool: {{ toYaml .Values.pool }}
{{- if .Values.labels }}
{{ toYaml .Values.labels }}
{{- end }}
{{- end }}

{{- define "eppctl.metadata" -}}
namespace: {{ toYaml .Release.Namespace }}
labels:
  {{- include "eppctl.labels" . | nindent 2 }}
{{- end }}

{{- define "eppctl.selector" -}}
app.kubernetes.io/name: eppctl
app.kubernetes.io/instance: {{ include "eppctl.name" . | toYaml }}
{{- end }}

{{- /* The model servers' labels. A pool must not hold its own picker. */ -}}
{{- define "eppctl.servers" -}}
{{- if and .Values.selector (deepEqual (include "eppctl.labels" . | fromYaml) (mergeOverwrite (include "eppctl.labels" . | fromYaml) .Values.selector)) -}}
{{- fail "selector: it means the picker's own pods too: give it a label that the model servers alone have, none of those in labels" -}}
{{- end -}}
{{ toYaml .Values.selector }}
{{- end }}

{{- define "eppctl.gateway" -}}
{{ default "inference-gateway" .Values.gateway }}
{{- end }}

{{- define "eppctl.reports" -}}
{{ if .Values.tlsSecret }}https-reports{{ else }}http-reports{{ end }}
{{- end }}

{{- define "eppctl.peers" -}}
{{- if and .Values.reportTokenSecret (gt (int .Values.replicas) 1) (not .Values.leaderElect) -}}
true
{{- end }}
{{- end }}
