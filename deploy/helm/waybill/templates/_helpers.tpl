{{/* Of all objects. Names of Services have no dots, begin with a letter, and have at most 63 characters. */}}
{{- define "waybill.name" -}}
{{- $release := .Release.Name | replace "." "-" }}
{{- if hasPrefix "waybill" $release }}{{ $release | trunc 50 | trimSuffix "-" }}{{ else }}{{ printf "waybill-%s" ($release | trunc 42 | trimSuffix "-") }}{{ end }}
{{- end }}

{{- define "waybill.selector" -}}
app.kubernetes.io/name: waybill
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "waybill.labels" -}}
{{ include "waybill.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service | quote }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | quote }}
{{- end }}

{{- define "waybill.image" -}}
{{- with .Values.image }}
{{- if .digest }}{{ .repository }}@{{ .digest }}{{ else }}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{/* All settings of the roles, as a map of texts. Those of the chart count before those of `settings`. */}}
{{- define "waybill.settings" -}}
{{- $host := (urlParse .Values.publicUrl).hostname }}
{{- $ours := dict
  "HOME" "/var/lib/waybill"
  "WAYBILL_HOME" "/var/lib/waybill"
  "WAYBILL_PUBLIC_URL" .Values.publicUrl
  "WAYBILL_HOSTS" (list $host "localhost" "127.0.0.1" | uniq | join ",")
  "WAYBILL_WEB_HOST" "0.0.0.0"
  "WAYBILL_PORT" "8000"
  "WAYBILL_WEB_PROCESSES" (toString .Values.web.processes)
  "WAYBILL_WEB_THREADS" (toString .Values.web.threads)
  "WAYBILL_WORKER_THREADS" (toString .Values.worker.threads)
  "WAYBILL_EVENTS_PORT" "8004"
  "WAYBILL_SSH_HOST" "0.0.0.0"
  "WAYBILL_SSH_PORT" "2222"
  "WAYBILL_RELAY" (printf "%s-relay:8003" (include "waybill.name" .))
  "WAYBILL_FRONT_SERVERS" (join "," .Values.frontServers)
  "WAYBILL_MONITORS" (concat (list "127.0.0.0/8" "::1/128") .Values.monitors | join ",")
}}
{{- range $name, $key := .Values.secret.files }}
{{- $_ := set $ours (printf "%s_FILE" $name) (printf "/etc/waybill/%s" $key) }}
{{- end }}
{{- merge $ours .Values.settings | toYaml }}
{{- end }}

{{- define "waybill.account" -}}
automountServiceAccountToken: false
# The variables of Services would be taken for settings: WAYBILL_PORT=tcp://...
enableServiceLinks: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . | quote }}
{{- end }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile:
    type: RuntimeDefault
{{- end }}

{{/* Of a container. Argument: the values of the role, and its name. */}}
{{- define "waybill.container" -}}
image: {{ include "waybill.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
command: [waybill, run, {{ .role }}]
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  privileged: false
  capabilities:
    drop: [ALL]
resources:
  requests:
    cpu: {{ .values.cpu | quote }}
    memory: {{ .values.memory | quote }}
  limits:
    memory: {{ .values.memory | quote }}
volumeMounts:
  - name: secret
    mountPath: /etc/waybill
    readOnly: true
  - name: certificates
    mountPath: /etc/grid-security/certificates
    readOnly: true
  - name: home
    mountPath: /var/lib/waybill
  - name: tmp
    mountPath: /tmp
{{- end }}

{{- define "waybill.volumes" -}}
# A whole folder, so that a key that is replaced is seen without a new pod.
- name: secret
  secret:
    secretName: {{ .root.Values.secret.name | quote }}
    defaultMode: 0440
- name: certificates
{{- with .root.Values.certificates.volume }}
  {{- toYaml . | nindent 2 }}
{{- else }}
  emptyDir: {}
{{- end }}
- name: home
{{- if .values.claim }}
  persistentVolumeClaim:
    claimName: {{ .values.claim | quote }}
{{- else }}
  emptyDir:
    sizeLimit: 64Mi
{{- end }}
- name: tmp
  emptyDir:
    sizeLimit: {{ .values.tmp | quote }}
{{- end }}

{{- define "waybill.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* The cheap checks. Only what says that a process hangs restarts it: an outage of the database must not. */}}
{{- define "waybill.probes" -}}
{{- if has . (list "web" "events") -}}
{{- $port := eq . "web" | ternary "http" "events" }}
startupProbe:
  httpGet: {path: /healthz, port: {{ $port }}}
  periodSeconds: 2
  timeoutSeconds: 5
  failureThreshold: 60
livenessProbe:
  httpGet: {path: /healthz, port: {{ $port }}}
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 6
readinessProbe:
  httpGet: {path: "/readyz?exclude=redis&exclude=sweep", port: {{ $port }}}
  periodSeconds: 5
  timeoutSeconds: 5
  failureThreshold: 2
{{- else -}}
readinessProbe:
  exec:
    command: [waybill, check, {{ . }}]
  initialDelaySeconds: 5
  periodSeconds: 10
  timeoutSeconds: 10
  failureThreshold: 3
{{- if ne . "worker" }}
livenessProbe:
  exec:
    command: [waybill, check, {{ . }}]
  initialDelaySeconds: 60
  periodSeconds: 20
  timeoutSeconds: 10
  failureThreshold: 6
{{- end }}
{{- end }}
{{- end }}
