{{- define "hookline.name" -}}
{{- printf "%s" .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- end -}}

{{- define "hookline.selector" -}}
app.kubernetes.io/name: hookline
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "hookline.labels" -}}
{{ include "hookline.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end -}}

{{- define "hookline.checkShared" -}}
{{- if or .Values.deliver.replicas .Values.collect.replicas -}}
{{- $journal := dig "journal" "url" "local" .Values.settings -}}
{{- $database := dig "database" "url" "local" .Values.settings -}}
{{- if not (hasPrefix "kafka://" $journal) -}}
{{- fail "deliver.replicas and collect.replicas need settings.journal.url: kafka://host:9092/topic, which pods can share" -}}
{{- end -}}
{{- if and (eq $database "local") (not .Values.secretName) -}}
{{- fail "deliver.replicas and collect.replicas need settings.database.url: postgresql://…, or HOOKLINE_DATABASE_URL in the Secret of secretName" -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- define "hookline.pod" -}}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end -}}

{{- define "hookline.annotations" -}}
checksum/config: {{ toJson (list .Values.settings .Values.connections) | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "hookline.container" -}}
image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  readOnlyRootFilesystem: true
  allowPrivilegeEscalation: false
  capabilities: {drop: [ALL]}
{{- with .Values.secretName }}
envFrom:
  - secretRef: {name: {{ . | quote }}}
{{- end }}
volumeMounts:
  - {name: data, mountPath: /data}
  - {name: config, mountPath: /etc/hookline, readOnly: true}
  - {name: tmp, mountPath: /tmp}
{{- end -}}

{{- define "hookline.ready" -}}
readinessProbe:
  httpGet: {path: /readyz, port: collect}
  periodSeconds: 2
  failureThreshold: 2  # seen within drain_delay
lifecycle:
  preStop:
    exec:  # endpoints go away while a pod is told to end, not before: calls by way of them still find all as it was
      command: [python, -I, -c, "import time; time.sleep(2)"]
{{- end -}}

{{- define "hookline.volumes" -}}
- name: config
  configMap: {name: {{ include "hookline.name" . }}}
- name: tmp
  emptyDir: {}
{{- end -}}
