// schemas makes JSON schemas for kubeconform: schemas OUT SWAGGER.JSON CRD.YAML...
//
// They are strict: a field that Kubernetes does not know is a mistake.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"go.yaml.in/yaml/v3"
)

type object = map[string]any

const shared = "_definitions.json"

func main() {
	out := os.Args[1]
	must(os.MkdirAll(out, 0o755))
	ofKubernetes(out, os.Args[2])
	for _, crd := range os.Args[3:] {
		ofCRD(out, crd)
	}
}

func ofKubernetes(out, path string) {
	text, err := os.ReadFile(path)
	must(err)
	var spec struct{ Definitions map[string]object }
	must(json.Unmarshal(text, &spec))
	fixed := object{}
	for name, def := range spec.Definitions {
		kinds, _ := def["x-kubernetes-group-version-kind"].([]any)
		f := fix(def).(object)
		if strings.HasSuffix(name, "api.resource.Quantity") {
			f = object{"oneOf": []any{object{"type": "string"}, object{"type": "number"}}}
		}
		fixed[name] = f
		if len(kinds) != 1 {
			continue
		}
		kind := kinds[0].(object)
		group, version := kind["group"].(string), kind["version"].(string)
		write(filepath.Join(out, file(kind["kind"].(string), group, version)),
			object{"$ref": shared + "#/definitions/" + name})
	}
	write(filepath.Join(out, shared), object{"definitions": fixed})
}

// fix makes a JSON schema of one of OpenAPI.
func fix(n any) any {
	switch n := n.(type) {
	case []any:
		for i := range n {
			n[i] = fix(n[i])
		}
	case object:
		for k, v := range n {
			if strings.HasPrefix(k, "x-kubernetes") {
				delete(n, k)
				continue
			}
			n[k] = fix(v)
		}
		if ref, ok := n["$ref"].(string); ok {
			n["$ref"] = strings.Replace(ref, "#/definitions/", shared+"#/definitions/", 1)
		}
		if n["format"] == "int-or-string" {
			return object{"oneOf": []any{object{"type": "string"}, object{"type": "integer"}}}
		}
		if _, ok := n["properties"].(object); ok {
			if _, set := n["additionalProperties"]; !set {
				n["additionalProperties"] = false
			}
		}
	}
	return n
}

func ofCRD(out, path string) {
	text, err := os.ReadFile(path)
	must(err)
	var crd struct {
		Spec struct {
			Group    string
			Names    struct{ Kind string }
			Versions []struct {
				Name   string
				Schema struct {
					OpenAPIV3Schema object `yaml:"openAPIV3Schema"`
				}
			}
		}
	}
	must(yaml.Unmarshal(text, &crd))
	for _, v := range crd.Spec.Versions {
		schema := fixCRD(v.Schema.OpenAPIV3Schema).(object)
		schema["properties"].(object)["metadata"] = object{"type": "object"} // Kubernetes knows what is in it
		write(filepath.Join(out, file(crd.Spec.Names.Kind, crd.Spec.Group, v.Name)), schema)
	}
}

func fixCRD(n any) any {
	switch n := n.(type) {
	case []any:
		for i := range n {
			n[i] = fixCRD(n[i])
		}
	case object:
		if n["x-kubernetes-int-or-string"] == true {
			return object{"oneOf": []any{object{"type": "string"}, object{"type": "integer"}}}
		}
		for k, v := range n {
			n[k] = fixCRD(v)
		}
		_, hasProperties := n["properties"].(object)
		if _, set := n["additionalProperties"]; hasProperties && !set && n["x-kubernetes-preserve-unknown-fields"] != true {
			n["additionalProperties"] = false
		}
	}
	return n
}

// file is what kubeconform asks for.
func file(kind, group, version string) string {
	group, _, _ = strings.Cut(group, ".")
	name := strings.ToLower(kind)
	for _, part := range []string{group, version} {
		if part != "" {
			name += "-" + part
		}
	}
	return name + ".json"
}

func write(path string, v any) {
	text, err := json.Marshal(v)
	must(err)
	must(os.WriteFile(path, text, 0o644))
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "schemas:", err)
		os.Exit(1)
	}
}
