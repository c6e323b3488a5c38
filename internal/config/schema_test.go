package config

import (
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"testing"
)

const chartSchema = "../../deploy/helm/lockd/values.schema.json"

var update = flag.Bool("update", false, "write the keys into the schema of the chart")

// The chart refuses what lockd would refuse: its schema of values has the schema of the keys.
func TestTheChartKnowsEveryKey(t *testing.T) {
	text, err := os.ReadFile(chartSchema)
	if err != nil {
		t.Fatal(err)
	}
	var chart map[string]any
	if err := json.Unmarshal(text, &chart); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(Schema())
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	properties := chart["properties"].(map[string]any)
	if reflect.DeepEqual(properties["config"], want) {
		return
	}
	if !*update {
		t.Fatalf("%s has other keys; run go test ./internal/config -run Chart -update", chartSchema)
	}
	properties["config"] = want
	text, err = json.MarshalIndent(chart, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(chartSchema, append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
