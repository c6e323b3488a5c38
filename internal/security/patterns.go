package security

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// patterns are names, and beginnings of names. To match a name costs one lookup in a map and one binary search, however
// many patterns there are.
type patterns struct {
	exact map[string]struct{}
	names []string // those of exact, in order
	// begins are sorted, and none is the beginning of another one: so only the last one that is not greater than a name
	// can be its beginning.
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
	p.names = slices.Sorted(maps.Keys(p.exact))
	slices.Sort(p.begins)
	apart := p.begins[:0]
	for _, begin := range p.begins {
		if len(apart) == 0 || !strings.HasPrefix(begin, apart[len(apart)-1]) {
			apart = append(apart, begin)
		}
	}
	p.begins = apart
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

// from is the first text, not less than text, with which a name can begin that matches one of the patterns.
func (p *patterns) from(text string) (first string, found bool) {
	if p.match(text) {
		return text, true
	}
	for _, all := range [][]string{p.begins, p.names} {
		if at, _ := slices.BinarySearch(all, text); at < len(all) && (!found || all[at] < first) {
			first, found = all[at], true
		}
	}
	return first, found
}

// behind is the first text that is greater than all that match the pattern which matches name.
func (p *patterns) behind(name string) (next string, found bool) {
	at, same := slices.BinarySearch(p.begins, name)
	switch {
	case same:
	case at > 0 && strings.HasPrefix(name, p.begins[at-1]):
		name = p.begins[at-1]
	default:
		return name + "\x01", true // names have no control characters, so none is between
	}
	for name != "" {
		last, size := utf8.DecodeLastRuneInString(name)
		name = name[:len(name)-size]
		switch {
		case last == utf8.MaxRune:
		case last+1 == 0xD800: // surrogates are no characters
			return name + "\uE000", true
		default:
			return name + string(last+1), true
		}
	}
	return "", false
}

// firsts find the first client that has a pattern for a name. That costs one lookup in a map for each length that
// beginnings have.
type firsts struct {
	exact, begins map[string]int // the number of a client
	lengths       []int          // of begins
}

func newFirsts() firsts { return firsts{exact: map[string]int{}, begins: map[string]int{}} }

// add gives a client a pattern. The client that comes first keeps it.
func (f *firsts) add(pattern string, client int) {
	to := f.exact
	begin, isBegin := strings.CutSuffix(pattern, "*")
	if isBegin {
		to = f.begins
		if !slices.Contains(f.lengths, len(begin)) {
			f.lengths = append(f.lengths, len(begin))
		}
	}
	if before, there := to[begin]; !there || client < before {
		to[begin] = client
	}
}

// of returns the first client that has a pattern for one of the names, and that name.
func (f *firsts) of(names []string) (client int, by string, found bool) {
	better := func(in map[string]int, text, name string) {
		if n, there := in[text]; there && (!found || n < client) {
			client, by, found = n, name, true
		}
	}
	for _, name := range names {
		better(f.exact, name, name)
		for _, l := range f.lengths {
			if l <= len(name) {
				better(f.begins, name[:l], name)
			}
		}
	}
	return client, by, found
}
