package broker_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/inspect"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// leases reads all pages of a list of leases at a replica.
func (w *world) leases(f inspect.Filter, size int) (all []inspect.Leased, pages int) {
	w.t.Helper()
	for after := ""; ; {
		page, next, asking, err := w.b.LeasesEverywhere(w.t.Context(), f, after, size)
		if err != nil || asking.Answered != asking.Asked || len(page) > size {
			w.t.Fatalf("a page of %d, %+v, %v", len(page), asking, err)
		}
		all, pages, after = append(all, page...), pages+1, next
		if next == "" {
			return all, pages
		}
	}
}

// A page costs what is looked at: a filter that lets nothing pass ends a page all the same.
func TestAPageWithAFilterLooksAtSoMuch(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.replica()
		for i := range 2 {
			c := there.as("busy")
			for n := range 6000 {
				c.acquire(request.Acquire{Name: fmt.Sprint(i, "-", n)})
				if n%100 == 0 {
					c.events() // so that not all are under way at once
				}
			}
			c.events()
		}
		page, next, _, err := w.b.LeasesEverywhere(w.t.Context(), inspect.Filter{Client: "nobody"}, "", 1000)
		if err != nil || len(page) != 0 || next == "" {
			t.Errorf("got %d, next %q, %v: want an empty page that is not the last one", len(page), next, err)
		}
		if all, pages := w.leases(inspect.Filter{Client: "busy"}, 1000); len(all) != 12_000 || pages < 12 {
			t.Errorf("%d leases on %d pages", len(all), pages)
		}
	})
}

func TestWhatIsSaidOfAForcedReleaseIsBounded(t *testing.T) {
	inWorld(t, func(w *world) {
		long := strings.Repeat("ä", 257)
		for _, f := range []session.Forced{{By: long[:257*2-1]}, {By: long[:258]}, {Why: long}, {Why: "\xff"}} {
			if _, err := w.b.AnnounceForce(w.t.Context(), "door", f); !errors.Is(err, lock.ErrInvalid) {
				t.Errorf("got %v, want ErrInvalid", err)
			}
		}
		for i := range 1500 {
			if _, err := w.b.AnnounceForce(w.t.Context(), strconv.Itoa(i), session.Forced{By: strconv.Itoa(i)}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Millisecond)
		}
		known := 0
		for i := range 1500 {
			if w.b.ForcedBy(strconv.Itoa(i)) != (session.Forced{}) {
				known++
			}
		}
		if known != 1000 || w.b.ForcedBy("0").By != "0" {
			t.Errorf("%d are remembered, want 1000", known)
		}
	})
}

// A session ends at the replica that has it, whichever is asked; what it held is free, also if it has no stream.
func TestASessionIsEndedWhereverItIs(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.replica()
		for _, detached := range []bool{false, true} {
			c := there.openWith(session.OpenRequest{Client: session.Client{Name: "far"}, ComesBack: true})
			c.take("door")
			if detached {
				c.Detach(nil)
			}
			by := session.Forced{By: "alice", Why: "it hangs"}
			was, asking, err := w.b.EndSession(w.t.Context(), c.ID(), by)
			if err != nil || was == nil || was.Client.Name != "far" || was.Locks != 1 || asking.Answered != 2 {
				t.Fatalf("detached %v: got %+v, %+v, %v", detached, was, asking, err)
			}
			w.free("door")
			if was, _, err = w.b.EndSession(w.t.Context(), c.ID(), by); err != nil || was != nil {
				t.Errorf("again: got %+v, %v", was, err)
			}
		}
	})
}
