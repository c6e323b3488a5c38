{{- define "lockd.placement" -}}
{{- $selector := include "lockd.selector" . | fromYaml }}
{{- $affinity := deepCopy .Values.affinity }}
{{- $term := dict "topologyKey" "kubernetes.io/hostname" "labelSelector" (dict "matchLabels" $selector) }}
{{- if eq .Values.antiAffinity "hard" }}
{{- $affinity = mergeOverwrite (dict "podAntiAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" (list $term))) $affinity }}
{{- else if eq .Values.antiAffinity "soft" }}
{{- $affinity = mergeOverwrite (dict "podAntiAffinity" (dict "preferredDuringSchedulingIgnoredDuringExecution" (list (dict "weight" 100 "podAffinityTerm" $term)))) $affinity }}
{{- end }}
{{- with $affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- $spread := list }}
{{- if .Values.zoneSpread }}
{{- $spread = append $spread (dict "maxSkew" .Values.zoneSpread "topologyKey" "topology.kubernetes.io/zone" "whenUnsatisfiable" "ScheduleAnyway" "labelSelector" (dict "matchLabels" $selector)) }}
{{- end }}
{{- range .Values.topologySpreadConstraints }}
{{- $spread = append $spread (merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" $selector))) }}
{{- end }}
{{- with $spread }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
