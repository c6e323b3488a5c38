// values finds values of a chart that change nothing: values HELM CHART VALUES.YAML..., with files that turn things on.
//
// It changes each value of the chart by itself, and has Helm render all of it. A value whose change gives the same
// manifests as before, with each of the files, is of no use, or is not wired up. The chart knows a value that Helm
// refuses.
package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"
)

type object = map[string]any

// others are other valid values, for texts that may have a few only.
var others = map[string]string{
	"digest": "sha256:" + strings.Repeat("0", 64), "antiAffinity": "soft", "clientCerts": "optional", "minVersion": "1.2",
	"duration": "99h", "renewBefore": "9h", "interval": "9s", "scrapeTimeout": "3s", "pullPolicy": "Always",
	"service.type": "NodePort", "probes.startup.type": "grpc", "probes.readiness.type": "grpc",
}

func main() {
	helm, chart := os.Args[1], os.Args[2]
	own := read(filepath.Join(chart, "values.yaml"))
	var idle []string
	for i, file := range os.Args[3:] {
		now := idleWith(helm, chart, merged(own, read(file)),
			func(path string) bool { return i == 0 || slices.Contains(idle, path) })
		idle = now
	}
	if slices.Sort(idle); len(idle) > 0 {
		fail(fmt.Errorf("these values change nothing: %s", strings.Join(idle, ", ")))
	}
}

// idleWith are the values that change nothing, among those for which asked is true.
func idleWith(helm, chart string, values object, asked func(path string) bool) (idle []string) {
	before, err := render(helm, chart, values)
	if err != nil {
		fail(err)
	}
	var mu sync.Mutex
	var jobs sync.WaitGroup
	room := make(chan struct{}, 4)
	for path, change := range changes(values, nil) {
		if !asked(path) {
			continue
		}
		jobs.Go(func() {
			room <- struct{}{}
			defer func() { <-room }()
			if after, err := render(helm, chart, change); err == nil && bytes.Equal(before, after) {
				mu.Lock()
				defer mu.Unlock()
				idle = append(idle, path)
			}
		})
	}
	jobs.Wait()
	return idle
}

// changes are copies of the values with one of them changed each, by the path of that one.
func changes(all object, path []string) map[string]object {
	out := map[string]object{}
	at := any(all)
	for _, p := range path {
		at = at.(object)[p]
	}
	section, ok := at.(object)
	if ok && len(section) > 0 && (len(path) == 0 || path[0] != "config") {
		for k := range section {
			maps.Copy(out, changes(all, append(slices.Clone(path), k)))
		}
		return out
	}
	changed := copyOf(all).(object)
	in := changed
	for _, p := range path[:len(path)-1] {
		in = in[p].(object)
	}
	in[path[len(path)-1]] = another(at, path)
	out[strings.Join(path, ".")] = changed
	return out
}

func another(v any, path []string) any {
	switch v := v.(type) {
	case bool:
		return !v
	case int:
		return v + 77
	case string:
		if o, ok := others[strings.Join(path, ".")]; ok {
			return o
		}
		if o, ok := others[path[len(path)-1]]; ok {
			return o
		}
		return v + "x"
	case []any:
		switch path[len(path)-1] {
		case "extraArgs", "dnsNames":
			return append(slices.Clone(v), "x")
		}
		return append(slices.Clone(v), object{"name": "x"})
	case object:
		if path[0] == "config" {
			return merged(v, object{"session": object{"ttl": "9s"}})
		}
		return merged(v, object{"x": "y"})
	}
	return "x"
}

func render(helm, chart string, values object) ([]byte, error) {
	text, err := json.Marshal(values)
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(helm, "template", "r", chart, "--values", "-")
	cmd.Stdin = bytes.NewReader(text)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, stderr.String())
	}
	return out, nil
}

func read(path string) (out object) {
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, &out)
	}
	if err != nil {
		fail(err)
	}
	return out
}

func merged(under, over object) object {
	out := maps.Clone(under)
	for k, v := range over {
		a, isA := out[k].(object)
		b, isB := v.(object)
		if isA && isB {
			v = merged(a, b)
		}
		out[k] = v
	}
	return out
}

func copyOf(v any) any {
	if o, ok := v.(object); ok {
		c := object{}
		for k, x := range o {
			c[k] = copyOf(x)
		}
		return c
	}
	return v
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "values:", err)
	os.Exit(1)
}
