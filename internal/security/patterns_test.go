package security

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// matches is what match promises, in the simplest way.
func matches(all []string, name string) bool {
	return slices.ContainsFunc(all, func(p string) bool {
		begin, isBegin := strings.CutSuffix(p, "*")
		return isBegin && strings.HasPrefix(name, begin) || p == name
	})
}

func TestPatterns(t *testing.T) {
	for _, c := range []struct {
		patterns string
		match    string
		not      string
	}{
		{"", "", "a"},
		{"a", "a", "ab b"},
		{"a*", "a ab a*b", "b"},
		{"*", "a ä *", ""},
		{"invoice:* rates", "invoice: invoice:7 rates", "invoice rates2 rate"},
		{"a* aa* ab", "a ac aaz ab az", "b"},
		{"ab* aa* a*", "aa ab ac a", "b A"},
		{"b* ba*", "bz baz b", "a c"},
		{"ä*", "äh", "a"},
	} {
		p, err := newPatterns(strings.Fields(c.patterns))
		if err != nil {
			t.Fatal(err)
		}
		for name := range strings.FieldsSeq(c.match) {
			if !p.match(name) {
				t.Errorf("%q does not match %q", c.patterns, name)
			}
		}
		for _, name := range append(strings.Fields(c.not), "") {
			if p.match(name) != matches(p.all, name) || name != "" && p.match(name) {
				t.Errorf("%q matches %q", c.patterns, name)
			}
		}
	}
	for _, bad := range []string{"", "a*b", "**", "*a", "*a*"} {
		if _, err := newPatterns([]string{"good", bad}); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

// TestPatternsMatchAsALoopDoes compares random patterns with matches. Three letters make beginnings meet.
func TestPatternsMatchAsALoopDoes(t *testing.T) {
	random := func(letters string) string {
		text := make([]byte, rand.N(5))
		for i := range text {
			text[i] = letters[rand.N(len(letters))]
		}
		return string(text)
	}
	for range 20_000 {
		var all []string
		found := newFirsts()
		for range rand.N(8) {
			one := random("abc")
			if rand.N(2) == 0 {
				one += "*"
			}
			if one != "" {
				found.add(one, len(all))
				all = append(all, one)
			}
		}
		p, err := newPatterns(all)
		if err != nil {
			t.Fatal(err)
		}
		name, other := random("abc"), random("abc")
		if p.match(name) != matches(all, name) {
			t.Fatalf("%q matches %q: %v", all, name, p.match(name))
		}
		first := slices.IndexFunc(all, func(one string) bool {
			return matches([]string{one}, name) || matches([]string{one}, other)
		})
		n, by, ok := found.of([]string{name, other})
		if ok != (first >= 0) || ok && (n != first || !matches(all[n:n+1], by)) {
			t.Fatalf("%q finds %d by %q of %q and %q, want %d", all, n, by, name, other, first)
		}
	}
}

// FuzzPatterns compares match with a loop.
func FuzzPatterns(f *testing.F) {
	f.Add("a* aa* ab", "ac")
	f.Add("* x", "")
	f.Fuzz(func(t *testing.T, texts, name string) {
		if p, err := newPatterns(strings.Fields(texts)); err == nil && p.match(name) != matches(p.all, name) {
			t.Errorf("%q matches %q: %v", p.all, name, p.match(name))
		}
	})
}

func BenchmarkMayLock(b *testing.B) {
	all := make([]string, 1000)
	for i := range all {
		all[i] = fmt.Sprintf("team-%d:*", i)
	}
	p, err := newPatterns(all)
	if err != nil {
		b.Fatal(err)
	}
	c := newClient("a", rights{lock: p})
	b.ReportAllocs()
	for b.Loop() {
		if err := c.MayLock("team-500:orders:4711"); err != nil {
			b.Fatal(err)
		}
	}
}

// From names the next name that may be looked at, whatever comes between.
func TestAListGoesOnBehindWhatIsHidden(t *testing.T) {
	const letters = "ab:"
	random := func() (all []string) {
		for range rand.N(4) {
			text := make([]byte, rand.N(4))
			for i := range text {
				text[i] = letters[rand.N(len(letters))]
			}
			if p := string(text) + []string{"", "*"}[rand.N(2)]; p != "" {
				all = append(all, p)
			}
		}
		return all
	}
	names := []string{""}
	for from := 0; len(names[len(names)-1]) < 5; from++ {
		for _, letter := range letters {
			names = append(names, names[from]+string(letter))
		}
	}
	slices.Sort(names)
	for range 2000 {
		var r rights
		lists := [][]string{random(), random(), random()}
		for i, to := range []*patterns{&r.lock, &r.look, &r.deny} {
			p, err := newPatterns(lists[i])
			must(t, err)
			*to = p
		}
		c := newClient("c", r)
		after := names[rand.N(len(names))]
		from, found := c.From(after)
		want := slices.IndexFunc(names, func(n string) bool { return n >= after && n != "" && c.Sees(n) })
		switch {
		case want < 0 && found && slices.ContainsFunc(names, func(n string) bool { return n >= from && c.Sees(n) }),
			want >= 0 && (!found || from > names[want] || from < after):
			t.Fatalf("%q from %q: got %q, %v", lists, after, from, found)
		case found && !c.Sees(from) && !slices.ContainsFunc(names, func(n string) bool {
			return strings.HasPrefix(n, from) && c.Sees(n)
		}) && len(from) < 4:
			t.Fatalf("%q from %q: got %q, and no name that may be looked at begins with it", lists, after, from)
		}
	}
}
