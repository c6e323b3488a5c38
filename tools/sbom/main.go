// sbom prints what Go programs were built of, as a CycloneDX document: sbom NAME VERSION PROGRAM...
//
// The same programs give the same text: it has no time and no random number in it.
package main

import (
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

type component struct {
	Type    string `json:"type"`
	Ref     string `json:"bom-ref"`
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
	PURL    string `json:"purl,omitempty"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

type document struct {
	Format   string `json:"bomFormat"`
	Spec     string `json:"specVersion"`
	Version  int    `json:"version"`
	Metadata struct {
		Component component `json:"component"`
	} `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

func main() {
	if len(os.Args) < 4 {
		fail(fmt.Errorf("usage: sbom NAME VERSION PROGRAM..."))
	}
	doc := document{Format: "CycloneDX", Spec: "1.5", Version: 1}
	doc.Metadata.Component = component{Type: "container", Ref: os.Args[1], Name: os.Args[1], Version: os.Args[2]}
	modules := map[string]component{}
	for _, path := range os.Args[3:] {
		info, err := buildinfo.ReadFile(path)
		if err != nil {
			fail(err)
		}
		name := filepath.Base(path)
		of := dependency{Ref: name, DependsOn: []string{}}
		add := func(module, version string) {
			c := component{"library", module + "@" + version, module, version, "pkg:golang/" + module + "@" + version}
			modules[c.Ref] = c
			of.DependsOn = append(of.DependsOn, c.Ref)
		}
		add("stdlib", info.GoVersion[len("go"):])
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			add(m.Path, m.Version)
		}
		doc.Components = append(doc.Components, component{Type: "application", Ref: name, Name: name, Version: os.Args[2]})
		doc.Dependencies = append(doc.Dependencies, of)
	}
	for _, ref := range slices.Sorted(maps.Keys(modules)) {
		doc.Components = append(doc.Components, modules[ref])
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", " ")
	if err := out.Encode(doc); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "sbom:", err)
	os.Exit(1)
}
