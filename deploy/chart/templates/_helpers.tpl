{{/* The name of everything that the chart makes. */}}
{{- define "muster.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 40 | trimSuffix "-" }}
{{- else if contains $name .Release.Name -}}
{{ .Release.Name | trunc 40 | trimSuffix "-" }}
{{- else -}}
{{ printf "%s-%s" .Release.Name $name | trunc 40 | trimSuffix "-" }}
{{- end -}}
{{- end -}}

{{- define "muster.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride }}
app.kubernetes.io/instance: {{ .Release.Name }}
control-plane: controller-manager
{{- end -}}

{{- define "muster.labels" -}}
{{ include "muster.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "muster.account" -}}
{{ include "muster.fullname" . }}-controller-manager
{{- end -}}

{{- define "muster.webhookService" -}}
{{ include "muster.fullname" . }}-webhook-service
{{- end -}}

{{- define "muster.webhookSecret" -}}
{{ include "muster.fullname" . }}-webhook-server-cert
{{- end -}}

{{/* A generated file with the names of this release. */}}
{{- define "muster.generated" -}}
{{- .file
  | replace "muster-webhook-service" (include "muster.webhookService" .root)
  | replace "muster-webhook-server-cert" (include "muster.webhookSecret" .root)
  | replace "muster-controller-manager" (include "muster.account" .root)
  | replace "muster-system" .root.Release.Namespace -}}
{{- end -}}

{{/* What cert-manager needs to know of an object that has to trust the webhooks. */}}
{{- define "muster.trusts" -}}
{{- if .Values.enableCertManager -}}
cert-manager.io/inject-ca-from: {{ .Release.Namespace }}/{{ include "muster.fullname" . }}-serving-cert
{{- end -}}
{{- end -}}

{{/* The part of the configuration that is Kueue's: the whole of it, or a part of a muster.yaml. */}}
{{- define "muster.configuration" -}}
{{- $given := fromYaml (tpl .Values.managerConfig.controllerManagerConfigYaml .) -}}
{{- if hasKey $given "Error" -}}
{{- fail (printf "managerConfig.controllerManagerConfigYaml is no YAML: %s" $given.Error) -}}
{{- end -}}
{{- $kueue := $given -}}
{{- if not (hasKey $given "apiVersion") -}}
{{- $block := default dict $given.kueue -}}
{{- $kueue = default (dict "apiVersion" "config.kueue.x-k8s.io/v1beta2" "kind" "Configuration") $block.configuration -}}
{{- $_ := set $block "configuration" $kueue -}}
{{- $_ := set $given "kueue" $block -}}
{{- end -}}
{{- $_ := set $kueue "namespace" .Release.Namespace -}}
{{- $certificates := default dict $kueue.internalCertManagement -}}
{{- $_ := set $certificates "enable" (not .Values.enableCertManager) -}}
{{- $_ := set $certificates "webhookServiceName" (include "muster.webhookService" .) -}}
{{- $_ := set $certificates "webhookSecretName" (include "muster.webhookSecret" .) -}}
{{- $_ := set $kueue "internalCertManagement" $certificates -}}
{{- $webhook := default dict $kueue.webhook -}}
{{- $_ := set $webhook "port" (index .Values.webhookService.ports 0).targetPort -}}
{{- if .Values.enableCertManager -}}
{{- $_ := set $webhook "certDir" "/run/muster/certificate" -}}
{{- end -}}
{{- $_ := set $kueue "webhook" $webhook -}}
{{- if .Values.enablePrometheus -}}
{{- $metrics := default dict $kueue.metrics -}}
{{- $_ := set $metrics "bindAddress" (printf ":%v" (index .Values.metricsService.ports 0).targetPort) -}}
{{- $_ := set $kueue "metrics" $metrics -}}
{{- end -}}
{{- if .Values.controllerManager.featureGates -}}
{{- $gates := default dict $kueue.featureGates -}}
{{- range .Values.controllerManager.featureGates -}}
{{- $_ := set $gates .name .enabled -}}
{{- end -}}
{{- $_ := set $kueue "featureGates" $gates -}}
{{- end -}}
{{- toYaml (dict "whole" $given "kueue" $kueue) -}}
{{- end -}}
