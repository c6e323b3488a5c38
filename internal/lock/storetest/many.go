package storetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

var renewContract = []contract{
	{"EachOfManyIsAnsweredOnceBeforeItReturns", manyRenewals},
	{"NoneIsNoWork", func(s *suite) {
		s.Store.Renew(s.Context(), nil, func(int, error) { s.Error("done was called") })
	}},
}

// manyRenewals renews more holds at once than any store sends in one message, every third of which is gone.
func manyRenewals(s *suite) {
	rs := make([]lock.Renewal, 350)
	for i := range rs {
		name := fmt.Sprintf("n%d", i)
		rs[i] = on(claim(name, "o"), s.acquire(claim(name, "o")).Fence)
		rs[i].TTL = 2 * ttl
		if i%3 == 0 {
			s.must(s.Hooks.Expire(name))
		}
	}
	var mu sync.Mutex
	calls := make([]int, len(rs))
	s.Store.Renew(s.Context(), rs, func(i int, err error) {
		mu.Lock()
		defer mu.Unlock()
		calls[i]++
		if i%3 == 0 {
			s.wantGone(err, lock.LostForced)
		} else if err != nil {
			s.Errorf("renewal %d: %v", i, err)
		}
	})
	for i, n := range calls {
		if n != 1 {
			s.Errorf("done was called %d times for renewal %d, want once", n, i)
		}
	}
	s.wantTTL(s.look("n1").TTL, 2*ttl)
}

func (s *suite) listAll(prefix string, size int) []string {
	s.Helper()
	seen := map[string]bool{}
	cursor := ""
	for range 100_000 {
		page, next, err := s.Store.List(s.Context(), prefix, cursor, size)
		if err != nil {
			s.Fatalf("list from %q: %v", cursor, err)
		}
		for _, st := range page {
			if !st.Held || (st.Owner == "") != (st.Kind == lock.Semaphore) || st.Holders == 0 || st.Fence == 0 {
				s.Errorf("a listed name is not held: %+v", st)
			}
			seen[st.Name] = true
		}
		if next == "" {
			return slices.Sorted(maps.Keys(seen))
		}
		cursor = next
	}
	s.Fatal("the pages do not end")
	return nil
}

func (s *suite) wantList(prefix string, size int, want []string) {
	s.Helper()
	want = slices.Sorted(slices.Values(want))
	if got := s.listAll(prefix, size); !slices.Equal(got, want) {
		s.Errorf("prefix %q: got %d names %.200q, want %d %.200q", prefix, len(got), got, len(want), want)
	}
}

// oddNames would confuse patterns, braces and encodings.
var oddNames = []string{
	"a", "{a}", "{a}b", "b{a}", "a*", "a?b", "[a-z]", `a\b`, "a b", "ä€😀", "*", "redisson_lock_token:",
	"{a}{b}", "{{a}}", "a:b:c", "\"quoted\"", "^$", halfBraced, strings.Repeat("x", 512),
}

// halfBraced is a name with half a pair of braces.
const halfBraced = "{a"

var listContract = []contract{
	{"NothingIsAnEmptyPage", func(s *suite) { s.wantList("", 10, nil) }},
	{"AllHeldNamesComeAndNoOthers", func(s *suite) {
		var held []string
		for i := range 100 {
			name := fmt.Sprintf("n%d", i)
			s.acquire(claim(name, "o"))
			if i%2 == 0 {
				s.release(back(claim(name, "o"), 0))
				continue
			}
			held = append(held, name)
		}
		for _, size := range []int{1, 7, 50, 1000} {
			s.wantList("", size, held)
		}
	}},
	{"APrefixIsNoPattern", func(s *suite) {
		oddNames := oddNames
		if s.Apart {
			oddNames = slices.DeleteFunc(slices.Clone(oddNames), func(name string) bool { return name == halfBraced })
			s.wantErr(errOf(await(s.Context(), s.Store.StartAcquire, claim(halfBraced, "o"))), lock.ErrInvalid)
		}
		for _, name := range oddNames {
			s.acquire(claim(name, "o"))
		}
		s.wantList("", 10, oddNames)
		for _, prefix := range append([]string{"{", "a", "x", "nothing", "[", `\`}, oddNames...) {
			var want []string
			for _, name := range oddNames {
				if strings.HasPrefix(name, prefix) {
					want = append(want, name)
				}
			}
			s.wantList(prefix, 10, want)
		}
	}},
	{"TwoMebibytesOfNamesComeAll", func(s *suite) {
		var names []string
		var taken sync.WaitGroup
		for i := range 4096 {
			names = append(names, fmt.Sprintf("%04d%s", i, strings.Repeat("é", 254)))
			taken.Add(1)
			c := claim(names[i], "o")
			c.TTL = time.Hour // a busy machine takes minutes
			s.Store.StartAcquire(c, func(_ lock.Grant, err error) {
				defer taken.Done()
				if err != nil {
					s.Error(err)
				}
			})
		}
		taken.Wait()
		s.wantList("", 1000, names)
		s.wantList("0", 100, names[:1000])
	}},
	{"AnUnknownCursorIsInvalid", func(s *suite) {
		for _, cursor := range []string{"x", "12", "scan:", "scan:-1", "scan:!", "\x00"} {
			_, _, err := s.Store.List(s.Context(), "", cursor, 10)
			s.wantErr(err, lock.ErrInvalid)
		}
	}},
	{"WhatIsNoLockIsNotListed", func(s *suite) {
		s.release(back(claim("n", "o"), s.acquire(claim("n", "o")).Fence))
		s.must(s.Hooks.Occupy("n"))
		s.acquire(claim("m", "o"))
		s.wantList("", 10, []string{"m"})
	}},
}
