package security

import (
	"errors"
	"slices"
	"strings"
)

// patterns are names, and beginnings of names. To match a name costs one look into a map and one binary search,
// however many there are.
type patterns struct {
	exact map[string]struct{}
	// begins are beginnings in order, of which none begins with another one: so of all of them only the last one that
	// is not behind a name can be its beginning.
	begins []string
	all    []string // as they were written
}

// errPattern says what a pattern is.
var errPattern = errors.New("must be a name, or the beginning of names with * after it")

// newPatterns reads patterns, each a name, or the beginning of names with a * after it. A * alone is for every name.
func newPatterns(all []string) (p patterns, err error) {
	p = patterns{exact: make(map[string]struct{}), all: all}
	for _, text := range all {
		begin, isBegin := strings.CutSuffix(text, "*")
		switch {
		case text == "" || strings.Contains(begin, "*"):
			return patterns{}, errPattern
		case isBegin:
			p.begins = append(p.begins, begin)
		default:
			p.exact[text] = struct{}{}
		}
	}
	slices.Sort(p.begins)
	p.begins = slices.CompactFunc(p.begins, func(short, long string) bool { return strings.HasPrefix(long, short) })
	return p, nil
}

// match says whether one of the patterns is for a name.
func (p *patterns) match(name string) bool {
	if _, there := p.exact[name]; there {
		return true
	}
	behind, found := slices.BinarySearch(p.begins, name)
	return found || behind > 0 && strings.HasPrefix(name, p.begins[behind-1])
}

// texts are the patterns as they were written.
func (p *patterns) texts() []string { return p.all }
