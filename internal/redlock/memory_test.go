package redlock

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// To free one name more by force costs the same however many were a moment ago: all who acquire wait for it.
func TestManyNamesAreFreedByForceQuickly(t *testing.T) {
	var s Store
	begun := time.Now()
	for i := range 20_000 {
		for range 5 { // members
			s.forced.put(strconv.Itoa(i), time.Now(), time.Hour)
		}
	}
	if took := time.Since(begun); took > 20*time.Second { // minutes if each looked at all
		t.Errorf("it took %v", took)
	}
	if !s.forcedSince([]lock.Claim{{Name: "0"}}, begun) || s.forcedSince([]lock.Claim{{Name: "0"}}, time.Now()) {
		t.Error("a name that was freed is forgotten, or when")
	}
}

// Names that were freed by force are forgotten when nobody asked before, but not while they were freed again since.
func TestNamesThatWereFreedByForceAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Store
		begun := time.Now()
		s.forced.put("again", time.Now(), time.Second)
		s.forced.put("once", time.Now(), time.Second)
		time.Sleep(900 * time.Millisecond)
		s.forced.put("again", time.Now(), time.Second)
		time.Sleep(900 * time.Millisecond)
		s.forced.put("other", time.Now(), time.Second)
		for name, want := range map[string]bool{"again": true, "once": false, "other": true} {
			if got := s.forcedSince([]lock.Claim{{Name: name}}, begun); got != want {
				t.Errorf("%s is known: %v", name, got)
			}
		}
	})
}
