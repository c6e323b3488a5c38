package config

import (
	"strconv"
	"strings"
	"time"
)

// durationPattern is what time.ParseDuration reads, without signs.
const durationPattern = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^0$`

// Schema is the JSON schema of the file: each key with the type and the bounds that its tags say. What depends on more
// than one key is not in it.
func Schema() map[string]any {
	c := Default()
	root := section()
	sections := map[string]map[string]any{"": root}
	for _, k := range keysOf(&c) {
		parent, name := "", k.name
		if i := strings.LastIndex(k.name, "."); i >= 0 {
			parent, name = k.name[:i], k.name[i+1:]
		}
		of := k.schema()
		if k.isSection() {
			of = section()
			sections[k.name] = of
		}
		sections[parent]["properties"].(map[string]any)[name] = of
	}
	return root
}

func section() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
}

// schema is that of one value.
func (k key) schema() map[string]any {
	out := map[string]any{}
	switch k.field.Interface().(type) {
	case time.Duration:
		out["type"], out["pattern"] = "string", durationPattern
		return out
	case int:
		out["type"] = "integer"
	case bool:
		out["type"] = "boolean"
	case []string:
		out["type"], out["items"] = []string{"array", "string"}, map[string]any{"type": "string"}
	default:
		out["type"] = "string"
	}
	for tag, word := range map[string]string{"min": "minimum", "max": "maximum"} {
		if text, ok := k.tag.Lookup(tag); ok {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				out[word] = n
			}
		}
	}
	if words, ok := k.tag.Lookup("oneof"); ok {
		out["enum"] = strings.Fields(words)
	}
	return out
}
