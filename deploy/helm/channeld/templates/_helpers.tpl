{{- define "channeld.name" -}}
{{- $name := ternary .Release.Name (printf "%s-channeld" .Release.Name) (contains "channeld" .Release.Name) -}}
{{- .Values.fullnameOverride | default $name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "channeld.version" -}}
{{- ternary .Values.image.tag .Chart.AppVersion (regexMatch "^[0-9]+[.][0-9]+[.][0-9]+" .Values.image.tag) -}}
{{- end }}

{{- define "channeld.image" -}}
{{- with .Values.image.registry }}{{ . }}/{{ end }}{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{- /* (list $ NAME COMPONENT): what selects the pods of a workload. */}}
{{- define "channeld.selector" -}}
app.kubernetes.io/name: {{ index . 1 }}
app.kubernetes.io/instance: {{ (index . 0).Release.Name }}
app.kubernetes.io/component: {{ index . 2 }}
{{- end }}

{{- define "channeld.podLabels" -}}
{{ include "channeld.selector" . }}
app.kubernetes.io/part-of: channeld
app.kubernetes.io/version: {{ include "channeld.version" (index . 0) | quote }}
{{- end }}

{{- /* The same of an object. */}}
{{- define "channeld.labels" -}}
{{- $root := index . 0 -}}
{{ include "channeld.selector" . }}
app.kubernetes.io/version: {{ include "channeld.version" $root | quote }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name $root.Chart.Version }}
{{- end }}

{{- define "channeld.secret" -}}
{{ .Values.redis.secret | default (printf "%s-redis" (include "channeld.name" .)) }}
{{- end }}

{{- define "channeld.writerSecret" -}}
{{ .Values.redis.writerSecret | default (printf "%s-redis-writer" (include "channeld.name" .)) }}
{{- end }}

{{- /* What all pods of channeld have. */}}
{{- define "channeld.pod" -}}
serviceAccountName: {{ include "channeld.name" . }}
automountServiceAccountToken: false
enableServiceLinks: false
{{- with .Values.image.pullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
{{- with .Values.podSpec }}
{{ toYaml . }}
{{- end }}
securityContext:
  {{- include "channeld.user" (list . 65532) | nindent 2 }}
{{- end }}

{{- /* (list $ ID): the user of a pod, which OpenShift assigns itself. */}}
{{- define "channeld.user" -}}
runAsNonRoot: true
{{- if not (index . 0).Values.openshift }}
runAsUser: {{ index . 1 }}
runAsGroup: {{ index . 1 }}
fsGroup: {{ index . 1 }}
{{- end }}
seccompProfile:
  type: RuntimeDefault
{{- end }}

{{- define "channeld.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- /* (list $ FOLDER): image, settings and what the settings name. A file has the URL: an environment is visible in
`kubectl exec`, /proc and crash reports. */}}
{{- define "channeld.container" -}}
{{- $root := index . 0 -}}
image: {{ include "channeld.image" $root }}
imagePullPolicy: {{ $root.Values.image.pullPolicy }}
envFrom:
  - configMapRef:
      name: {{ include "channeld.name" $root }}
env:
  - name: CHANNELD_REDIS_URL_FILE
    value: /run/secrets/{{ index . 1 }}/url
securityContext:
  {{- include "channeld.containerSecurity" . | nindent 2 }}
{{- end }}

{{- define "channeld.mounts" -}}
- name: redis
  mountPath: /run/secrets/{{ index . 1 }}
  readOnly: true
- name: redis-ca
  mountPath: /etc/channeld/redis-ca
  readOnly: true
- name: sentinel
  mountPath: /run/secrets/channeld-sentinel
  readOnly: true
{{- end }}

{{- /* (list $ SECRET) */}}
{{- define "channeld.volumes" -}}
{{- $name := include "channeld.name" (index . 0) -}}
- name: redis
  secret:
    secretName: {{ index . 1 }}
    defaultMode: 0440
    items:
      - key: url
        path: url
- name: redis-ca
  configMap:
    name: {{ $name }}-redis-ca
    optional: true
- name: sentinel
  secret:
    secretName: {{ $name }}-sentinel
    optional: true
    defaultMode: 0440
{{- end }}
