package config

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

const chartSchema = "../../deploy/helm/lockd/values.schema.json"

var update = flag.Bool("update", false, "write the keys into the schema of the chart")

// The chart refuses what lockd would refuse: its schema of values has the schema of the keys.
func TestTheChartKnowsEveryKey(t *testing.T) {
	text, err := os.ReadFile(chartSchema)
	must(t, err)
	var chart map[string]any
	must(t, json.Unmarshal(text, &chart))
	raw, err := json.Marshal(schemaOfKeys())
	must(t, err)
	var want any
	must(t, json.Unmarshal(raw, &want))
	properties := chart["properties"].(map[string]any)
	if reflect.DeepEqual(properties["config"], want) {
		return
	}
	if !*update {
		t.Fatalf("%s has other keys; run go test ./internal/config -run Chart -update", chartSchema)
	}
	properties["config"] = want
	text, err = json.MarshalIndent(chart, "", "  ")
	must(t, err)
	must(t, os.WriteFile(chartSchema, append(text, '\n'), 0o644))
}

// durationPattern is what time.ParseDuration reads, without signs.
const durationPattern = `^([0-9]+(\.[0-9]*)?(ns|us|µs|ms|s|m|h))+$|^0$`

// schemaOfKeys is the JSON schema of the file: each key with the type and the bounds that its tags say. What depends on
// more than one key is not in it.
func schemaOfKeys() map[string]any {
	root := newSection()
	for _, k := range keysOf(new(Config)) {
		properties, name := root["properties"].(map[string]any), k.name
		for section, rest, below := strings.Cut(name, "."); below; section, rest, below = strings.Cut(name, ".") {
			if properties[section] == nil {
				properties[section] = newSection()
			}
			properties, name = properties[section].(map[string]any)["properties"].(map[string]any), rest
		}
		properties[name] = k.schema()
	}
	return root
}

func newSection() map[string]any {
	return map[string]any{"type": "object", "additionalProperties": false, "properties": map[string]any{}}
}

// schema is that of one value.
func (k key) schema() map[string]any {
	out := map[string]any{"type": "string"}
	switch k.field.Interface().(type) {
	case time.Duration:
		out["pattern"] = durationPattern
		return out
	case []string:
		out["type"], out["items"] = []string{"array", "string"}, map[string]any{"type": "string"}
	case bool:
		out["type"] = "boolean"
	case int:
		out["type"] = "integer"
	}
	for tag, word := range map[string]string{"min": "minimum", "max": "maximum"} {
		if text, ok := k.tag.Lookup(tag); ok {
			out[word] = k.bound(text)
		}
	}
	if words := k.words(); len(words) > 0 {
		out["enum"] = words
	}
	return out
}
