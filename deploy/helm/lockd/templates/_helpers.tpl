{{- define "lockd.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" }}
{{- end }}

{{- define "lockd.fullname" -}}
{{- if .Values.fullnameOverride }}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else if contains (include "lockd.name" .) .Release.Name }}
{{- .Release.Name | trunc 50 | trimSuffix "-" }}
{{- else }}
{{- printf "%s-%s" .Release.Name (include "lockd.name" .) | trunc 50 | trimSuffix "-" }}
{{- end }}
{{- end }}

{{- define "lockd.selector" -}}
app.kubernetes.io/name: {{ include "lockd.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{/* The labels of everything; of pods only those that no upgrade changes are selected. */}}
{{- define "lockd.labels" -}}
{{ include "lockd.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: lockd
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 }}
{{- with .Values.commonLabels }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lockd.serviceAccount" -}}
{{- .Values.serviceAccount.name | default (ternary (include "lockd.fullname" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{- define "lockd.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{- define "lockd.tlsSecret" -}}
{{- if .Values.tls.certManager.enabled }}{{ include "lockd.fullname" . }}-tls{{ else }}{{ .Values.tls.existingSecret }}{{ end }}
{{- end }}

{{- define "lockd.clientsSecret" -}}
{{- if .Values.security.clients }}{{ include "lockd.fullname" . }}-clients{{ else }}{{ .Values.security.existingSecret }}{{ end }}
{{- end }}

{{/* The seconds of a duration such as 1m30s, rounded up. */}}
{{- define "lockd.seconds" -}}
{{- $ms := 0 }}
{{- range $unit, $factor := dict "h" 3600000 "m" 60000 "s" 1000 "ms" 1 }}
{{- $found := regexFind (printf "([0-9.]+)%s([0-9]|$)" $unit) (toString $.d) }}
{{- if $found }}{{ $ms = addf $ms (mulf (regexFind "^[0-9.]+" $found | float64) $factor) }}{{ end }}
{{- end }}
{{- ceil (divf $ms 1000) | int }}
{{- end }}

{{- define "lockd.config" -}}
{{- $own := dict "listen" ":7420" "ops_listen" ":7421" "log" (dict "format" "json") }}
{{- if .Values.http.enabled }}{{ $_ := set $own "http_listen" ":7424" }}{{ end }}
{{- if .Values.tls.enabled }}
{{- $tls := dict "cert_file" "/etc/lockd/tls/tls.crt" "key_file" "/etc/lockd/tls/tls.key" "min_version" .Values.tls.minVersion "client_certs" .Values.tls.clientCerts }}
{{- if ne .Values.tls.clientCerts "none" }}
{{- $_ := set $tls "client_ca_file" (ternary "/etc/lockd/client-ca/ca.crt" "/etc/lockd/tls/ca.crt" (ne .Values.tls.clientCASecret "")) }}
{{- end }}
{{- $_ := set $own "listen_tls" $tls }}
{{- if .Values.tls.ops }}
{{- $_ := set $own "ops_tls" (dict "cert_file" "/etc/lockd/tls/tls.crt" "key_file" "/etc/lockd/tls/tls.key" "min_version" .Values.tls.minVersion) }}
{{- end }}
{{- end }}
{{- with .Values.console }}
{{- if .enabled }}
{{- $_ := set $own "console_listen" ":7423" }}
{{- $console := dict "path" .path "hosts" .hosts }}
{{- if .keySecret }}{{ $_ := set $console "key_file" "/etc/lockd/console/key" }}{{ end }}
{{- $_ := set $own "console" $console }}
{{- if $.Values.tls.enabled }}
{{- $tls := deepCopy (index $own "listen_tls") }}
{{- if ne $.Values.tls.clientCerts "none" }}{{ $_ := set $tls "client_certs" "optional" }}{{ end }}
{{- $_ := set $own "console_tls" $tls }}
{{- end }}
{{- end }}
{{- end }}
{{- with .Values.security }}
{{- $security := dict }}
{{- if .require }}{{ $_ := set $security "require" true }}{{ end }}
{{- if or .clients .existingSecret }}
{{- $_ := set $security "clients_file" "/etc/lockd/clients/clients.yaml" }}
{{- if .audit }}{{ $_ := set $security "audit" .audit }}{{ end }}
{{- end }}
{{- if $security }}{{ $_ := set $own "security" $security }}{{ end }}
{{- end }}
{{- $redis := dict }}
{{- with .Values.redis.auth }}
{{- if .existingSecret }}
{{- $_ := set $redis "password_file" "/etc/lockd/redis/password" }}
{{- if .sentinelPasswordKey }}{{ $_ := set $redis "sentinel" (dict "password_file" "/etc/lockd/redis/sentinel-password") }}{{ end }}
{{- end }}
{{- end }}
{{- with .Values.redis.tls }}
{{- if .existingSecret }}
{{- $tls := dict "enabled" true "ca_file" "/etc/lockd/redis-tls/ca.crt" }}
{{- if .clientCertificate }}{{ $_ := merge $tls (dict "cert_file" "/etc/lockd/redis-tls/tls.crt" "key_file" "/etc/lockd/redis-tls/tls.key") }}{{ end }}
{{- $_ := set $redis "tls" $tls }}
{{- end }}
{{- end }}
{{- if .Values.redis.tryOut.enabled }}
{{- $_ := set $redis "addr" (printf "%s-redis:6379" (include "lockd.fullname" .)) }}
{{- $_ := set $own "store" (dict "kind" "standalone") }}
{{- end }}
{{- if $redis }}{{ $_ := set $own "redis" $redis }}{{ end }}
{{- toYaml (mergeOverwrite $own (deepCopy (.Values.config | default dict))) }}
{{- end }}

{{/* 80 % of a memory limit in Mi or Gi, for Go's garbage collector. */}}
{{- define "lockd.gomemlimit" -}}
{{- $limit := dig "limits" "memory" "" .Values.resources | toString }}
{{- if regexMatch "^[0-9]+Gi$" $limit }}{{ div (mul (trimSuffix "Gi" $limit | int) 1024 8) 10 }}MiB
{{- else if regexMatch "^[0-9]+Mi$" $limit }}{{ div (mul (trimSuffix "Mi" $limit | int) 8) 10 }}MiB
{{- end }}
{{- end }}

{{/* What cannot work, by the name of the key. */}}
{{- define "lockd.check" -}}
{{- $config := include "lockd.config" . | fromYaml }}
{{- $kind := dig "store" "kind" "memory" $config }}
{{- $most := ternary .Values.autoscaling.maxReplicas .Values.replicaCount .Values.autoscaling.enabled | int }}
{{- if and (eq $kind "memory") (gt $most 1) }}
{{- fail (printf "config.store.kind: is memory, but there are up to %d replicas, each with locks of its own; name a Redis (config.store.kind and config.redis.addr), or set replicaCount to 1, or redis.tryOut.enabled to try it" $most) }}
{{- end }}
{{- if and (eq $kind "standalone") (not (dig "redis" "addr" "" $config)) }}{{ fail "config.redis.addr: is needed when config.store.kind is standalone" }}{{ end }}
{{- if and (eq $kind "sentinel") (not (dig "redis" "sentinel" "addrs" "" $config)) }}{{ fail "config.redis.sentinel.addrs: is needed when config.store.kind is sentinel" }}{{ end }}
{{- if and (eq $kind "cluster") (not (dig "redis" "cluster" "addrs" "" $config)) }}{{ fail "config.redis.cluster.addrs: is needed when config.store.kind is cluster" }}{{ end }}
{{- if and (eq $kind "redlock") (not (dig "redlock" "members" "" $config)) }}{{ fail "config.redlock.members: is needed when config.store.kind is redlock" }}{{ end }}
{{- if not (dig "ops_listen" "" $config) }}{{ fail "config.ops_listen: must not be empty: the probes need it" }}{{ end }}
{{- if ne .Values.http.enabled (ne (dig "http_listen" "" $config) "") }}{{ fail "http.enabled: turns HTTP on and off, and config.http_listen may only change its address" }}{{ end }}
{{- with .Values.tls }}
{{- if and .enabled (not .existingSecret) (not .certManager.enabled) }}{{ fail "tls.existingSecret: is needed when tls.enabled is true, or tls.certManager.enabled" }}{{ end }}
{{- if and .certManager.enabled .existingSecret }}{{ fail "tls.existingSecret: is set, and tls.certManager.enabled is true; only one can be" }}{{ end }}
{{- if and .certManager.enabled (not .enabled) }}{{ fail "tls.certManager.enabled: is true, but tls.enabled is false" }}{{ end }}
{{- if and .certManager.enabled (not .certManager.issuerRef.name) }}{{ fail "tls.certManager.issuerRef.name: is needed" }}{{ end }}
{{- if and (not .enabled) (ne .clientCerts "none") }}{{ fail "tls.clientCerts: is set, but tls.enabled is false" }}{{ end }}
{{- if and (not .enabled) .ops }}{{ fail "tls.ops: is true, but tls.enabled is false" }}{{ end }}
{{- end }}
{{- if and .Values.console.enabled (not (dig "security" "clients_file" "" $config)) }}{{ fail "console.enabled: is true, but nobody is a client; set security.clients or security.existingSecret" }}{{ end }}
{{- if and (not .Values.security.serviceAccountTokens) (contains "/var/run/secrets/kubernetes.io/serviceaccount/" (toYaml .Values.security.clients)) }}{{ fail "security.serviceAccountTokens: is false, but security.clients names files that it mounts" }}{{ end }}
{{- if and .Values.security.clients .Values.security.existingSecret }}{{ fail "security.existingSecret: is set, and security.clients is; only one can be" }}{{ end }}
{{- if dig "security" "require" false $config }}
{{- $off := "or set security.require=false, and whoever reaches lockd may do everything" }}
{{- if not (dig "listen_tls" "cert_file" "" $config) }}
{{- fail (printf "security.require: is true, but clients are served without TLS; set tls.enabled=true with tls.existingSecret or, if you have cert-manager, tls.certManager.enabled=true, %s" $off) }}
{{- end }}
{{- if not (dig "security" "clients_file" "" $config) }}
{{- fail (printf "security.require: is true, but nobody is a client; set security.clients or security.existingSecret (docs/security.md has recipes), %s" $off) }}
{{- end }}
{{- end }}
{{- range $name := list "startup" "readiness" }}
{{- $probe := index $.Values.probes $name }}
{{- if and (eq $probe.type "grpc") (dig "listen_tls" "cert_file" "" $config) }}
{{- fail (printf "probes.%s.type: is grpc, but a gRPC probe of Kubernetes cannot speak TLS; say http" $name) }}
{{- end }}
{{- end }}
{{- $needed := include "lockd.grace" . | int }}
{{- if and .Values.terminationGracePeriodSeconds (lt (int .Values.terminationGracePeriodSeconds) $needed) }}
{{- fail (printf "terminationGracePeriodSeconds: is %d, must be at least %d: preStopSeconds, config.shutdown.timeout and 5" (int .Values.terminationGracePeriodSeconds) $needed) }}
{{- end }}
{{- if and .Values.redis.tryOut.enabled .Values.redis.auth.existingSecret }}{{ fail "redis.tryOut.enabled: is true, and redis.auth.existingSecret is set; the Redis for try-outs has no password" }}{{ end }}
{{- end }}

{{- define "lockd.grace" -}}
{{- $config := include "lockd.config" . | fromYaml }}
{{- $stop := include "lockd.seconds" (dict "d" (dig "shutdown" "timeout" "20s" $config)) | int }}
{{- add .Values.preStopSeconds $stop 5 }}
{{- end }}

{{/* What the service account is known by: by Kubernetes, and by lockd. */}}
{{- define "lockd.tokens" -}}
- name: service-account
  projected:
    sources:
      - serviceAccountToken: {path: token, expirationSeconds: 3600}
      - serviceAccountToken: {path: lockd-token, audience: lockd, expirationSeconds: 3600}
      - configMap: {name: kube-root-ca.crt, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}

{{/* Volumes of Secrets, for lockd. */}}
{{- define "lockd.volumes" -}}
- name: config
  configMap: {name: {{ include "lockd.fullname" . }}}
{{- if .Values.tls.enabled }}
- name: tls
  secret: {secretName: {{ include "lockd.tlsSecret" . }}, defaultMode: 0440}
{{- if .Values.tls.clientCASecret }}
- name: client-ca
  secret: {secretName: {{ .Values.tls.clientCASecret }}, items: [{key: ca.crt, path: ca.crt}]}
{{- end }}
{{- end }}
{{- if include "lockd.clientsSecret" . }}
- name: clients
  secret:
    secretName: {{ include "lockd.clientsSecret" . }}
    defaultMode: 0440
    items: [{key: {{ ternary .Values.security.existingSecretKey "clients.yaml" (ne .Values.security.existingSecret "") }}, path: clients.yaml}]
{{- end }}
{{- if and .Values.console.enabled .Values.console.keySecret }}
- name: console
  secret: {secretName: {{ .Values.console.keySecret }}, defaultMode: 0440, items: [{key: key, path: key}]}
{{- end }}
{{- if .Values.security.serviceAccountTokens }}
{{ include "lockd.tokens" . }}
{{- end }}
{{- with .Values.redis.auth }}
{{- if .existingSecret }}
- name: redis
  secret:
    secretName: {{ .existingSecret }}
    defaultMode: 0440
    items:
      - {key: {{ .passwordKey }}, path: password}
      {{- if .sentinelPasswordKey }}
      - {key: {{ .sentinelPasswordKey }}, path: sentinel-password}
      {{- end }}
{{- end }}
{{- end }}
{{- if .Values.redis.tls.existingSecret }}
- name: redis-tls
  secret: {secretName: {{ .Values.redis.tls.existingSecret }}, defaultMode: 0440}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lockd.mounts" -}}
- {name: config, mountPath: /etc/lockd/config, readOnly: true}
{{- if .Values.tls.enabled }}
- {name: tls, mountPath: /etc/lockd/tls, readOnly: true}
{{- if .Values.tls.clientCASecret }}
- {name: client-ca, mountPath: /etc/lockd/client-ca, readOnly: true}
{{- end }}
{{- end }}
{{- if include "lockd.clientsSecret" . }}
- {name: clients, mountPath: /etc/lockd/clients, readOnly: true}
{{- end }}
{{- if and .Values.console.enabled .Values.console.keySecret }}
- {name: console, mountPath: /etc/lockd/console, readOnly: true}
{{- end }}
{{- if .Values.security.serviceAccountTokens }}
- {name: service-account, mountPath: /var/run/secrets/kubernetes.io/serviceaccount, readOnly: true}
{{- end }}
{{- if .Values.redis.auth.existingSecret }}
- {name: redis, mountPath: /etc/lockd/redis, readOnly: true}
{{- end }}
{{- if .Values.redis.tls.existingSecret }}
- {name: redis-tls, mountPath: /etc/lockd/redis-tls, readOnly: true}
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "lockd.env" -}}
- name: LOCKD_REPLICA
  valueFrom: {fieldRef: {fieldPath: metadata.name}}
{{- if .Values.security.serviceAccountTokens }}
# For lockctl in this container.
- {name: LOCKD_TOKEN_FILE, value: /var/run/secrets/kubernetes.io/serviceaccount/lockd-token}
{{- end }}
{{- $config := include "lockd.config" . | fromYaml }}
{{- if and (dig "listen_tls" "cert_file" "" $config) (not (dig "admin_tls" "cert_file" "" $config)) }}
# For lockctl, too: where no TLS is spoken.
{{- range $name := list "LOCKD_ADDR" "LOCKD_ADMIN_ADDR" }}
- {name: {{ $name }}, value: {{ dig "admin_listen" "127.0.0.1:7422" $config | quote }}}
{{- end }}
{{- end }}
{{- with include "lockd.gomemlimit" . }}
- {name: GOMEMLIMIT, value: {{ . }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The port that an address of the configuration names. */}}
{{- define "lockd.port" -}}
{{- $config := include "lockd.config" .root | fromYaml }}
{{- regexFind "[0-9]+$" (index $config .key) }}
{{- end }}

{{- define "lockd.probe" -}}
{{- $config := include "lockd.config" .root | fromYaml }}
{{- if eq (.probe.type | default "http") "grpc" }}
grpc: {port: {{ include "lockd.port" (dict "root" .root "key" "listen") }}}
{{- else }}
httpGet: {path: {{ .path }}, port: ops, scheme: {{ ternary "HTTPS" "HTTP" (ne (dig "ops_tls" "cert_file" "" $config) "") }}}
{{- end }}
{{ toYaml (omit .probe "type") }}
{{- end }}
