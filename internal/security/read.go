package security

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// The bounds of a clients file. They keep a mistake, or a reference that repeats a list, from filling the memory.
const (
	maxFileBytes = 1 << 20
	maxClients   = 10_000
	maxItems     = 100_000 // texts in lists: patterns, names of certificates, tokens
	maxIssuers   = 100
	maxFindings  = 100
)

// reader walks through YAML and notes all that is wrong. Findings never have a value that may be secret.
type reader struct {
	path     string
	found    []finding
	items    int
	tooLarge bool // said that there are too many items
}

type finding struct {
	line int
	text string
}

// item is a text, and its line.
type item struct {
	text string
	line int
}

func (r *reader) add(line int, format string, args ...any) {
	if len(r.found) < maxFindings {
		r.found = append(r.found, finding{line, fmt.Sprintf(format, args...)})
	}
}

// err is all findings, in the order of the file.
func (r *reader) err() error {
	slices.SortStableFunc(r.found, func(a, b finding) int { return cmp.Compare(a.line, b.line) })
	all := make([]error, 0, len(r.found))
	for _, f := range r.found {
		all = append(all, fmt.Errorf("%s: line %d: %s", r.path, f.line, f.text))
	}
	return errors.Join(all...)
}

// key is the name of a key of a mapping, and how its value is read.
type key struct {
	name string
	read func(*yaml.Node)
}

// keys reads a mapping, which may have the known keys only, each once.
func (r *reader) keys(n *yaml.Node, what string, known ...key) {
	n = target(n)
	if n.Kind != yaml.MappingNode {
		r.add(n.Line, "%s must have keys", what)
		return
	}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content) && len(r.found) < maxFindings; i += 2 {
		name := n.Content[i].Value
		at := slices.IndexFunc(known, func(k key) bool { return k.name == name })
		switch line := n.Content[i].Line; {
		case at < 0:
			r.add(line, "%s has no key %q, but: %s", what, name, strings.Join(namesOf(known), ", "))
		case seen[name] != 0:
			r.add(line, "%s has the key %q already in line %d", what, name, seen[name])
		default:
			seen[name] = line
			known[at].read(n.Content[i+1])
		}
	}
}

func namesOf(keys []key) (names []string) {
	for _, k := range keys {
		names = append(names, k.name)
	}
	return names
}

// list returns the elements of a list. Anything else is a list of one, and null is an empty list.
func (r *reader) list(n *yaml.Node) []*yaml.Node {
	switch n = target(n); {
	case n.Kind == yaml.SequenceNode:
		return n.Content
	case isNull(n):
		return nil
	}
	return []*yaml.Node{n}
}

// text reads a text that must not be empty.
func (r *reader) text(n *yaml.Node, what string) string {
	line := n.Line
	if n = target(n); n.Kind != yaml.ScalarNode || isNull(n) || n.Value == "" {
		r.add(line, "%s must be a text", what)
		return ""
	}
	return n.Value
}

// texts reads a list of texts, or one.
func (r *reader) texts(n *yaml.Node, what string) (all []item) {
	for _, one := range r.list(n) {
		if !r.isRoom(one.Line) {
			return all
		}
		if text := r.text(one, what); text != "" {
			all = append(all, item{text, one.Line})
		}
	}
	return all
}

// isRoom counts an item of a list, and says whether there may be one more.
func (r *reader) isRoom(line int) bool {
	if r.items++; r.items > maxItems && !r.tooLarge {
		r.tooLarge = true
		r.add(line, "there are more than %d patterns, names and tokens in the file", maxItems)
	}
	return r.items <= maxItems && len(r.found) < maxFindings
}

// count returns a function that reads a positive whole number.
func (r *reader) count(to *int, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		count, err := strconv.Atoi(target(n).Value)
		if err != nil || count < 1 || target(n).Kind != yaml.ScalarNode {
			r.add(n.Line, "%s must be a whole number from 1 on; without it there is no bound", what)
			return
		}
		*to = count
	}
}

// patterns returns a function that reads a list of patterns.
func (r *reader) patterns(to *patterns, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		var all []string
		for _, one := range r.texts(n, what) {
			if r.isPattern(one, what) {
				all = append(all, one.text)
			}
		}
		*to, _ = newPatterns(all) // each was checked
	}
}

// isPattern says whether a text is a pattern, and notes a mistake if not.
func (r *reader) isPattern(i item, what string) bool {
	if _, err := newPatterns([]string{i.text}); err != nil {
		r.add(i.line, "%s: %q %v", what, i.text, err)
		return false
	}
	return true
}

// target is the node itself, or the node that an alias stands for.
func target(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.Tag == "!!null" }
