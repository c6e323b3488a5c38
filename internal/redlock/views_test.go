package redlock

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
)

// Each name that a majority holds is listed once, whichever members have it, and though a minority is away.
func TestEachNameIsListedOnce(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		var want []string
		for i := range 40 {
			name := fmt.Sprintf("n%02d", i)
			members := i%4 + 1
			if members >= 3 {
				want = append(want, name)
			}
			for m := range members {
				w.puts((i+m)%5, claimOf(name, "o"))
			}
		}
		list := func() (names []string) {
			for cursor := ""; ; {
				page, next, err := w.Store.List(w.Context(), "n", cursor, 7)
				must(t, err)
				for _, st := range page {
					names = append(names, st.Name)
				}
				if cursor = next; cursor == "" {
					slices.Sort(names)
					return names
				}
			}
		}
		if got := list(); !slices.Equal(got, want) {
			t.Errorf("got %q, want %q", got, want)
		}
		for i := range 40 {
			for m := range w.nodes {
				c := claimOf(fmt.Sprintf("n%02d", i), "o")
				w.puts(m, c)
			}
		}
		w.nodes[0].becomes(down)
		w.nodes[3].becomes(down)
		if got := list(); len(got) != 40 {
			t.Errorf("got %d names, want 40: %q", len(got), got)
		}
		if _, _, err := w.Store.List(w.Context(), "", "member 9 0 ", 1); !errors.Is(err, lock.ErrInvalid) {
			t.Errorf("got %v", err)
		}
	})
}

func TestMetricsTellWhichMemberIsAway(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		reg := prometheus.NewPedanticRegistry()
		s, err := New(Config{Names: []string{"a", "b", "c"}, Quarantine: time.Minute},
			[]lock.Store{w.nodes[0], w.nodes[1], w.nodes[2]}, zap.NewNop(), reg)
		must(t, err)
		w.nodes[1].becomes(down)
		w.nodes[2].restart()
		_, err = s.Probe(w.Context())
		must(t, err)
		synctest.Wait()
		families, err := reg.Gather()
		must(t, err)
		got := map[string]float64{}
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					got[f.GetName()+" "+l.GetValue()] = m.GetGauge().GetValue()
				}
			}
		}
		want := map[string]float64{
			"lockd_redlock_member_up a": 1, "lockd_redlock_member_up b": 0, "lockd_redlock_member_up c": 1,
			"lockd_redlock_member_quarantined a": 0, "lockd_redlock_member_quarantined b": 0,
			"lockd_redlock_member_quarantined c": 1,
		}
		if !maps.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

// A hold has not ended as long as members that do not answer may have it, so that a majority has.
func TestAHoldIsSeenAsLongAsAMajorityMayHaveIt(t *testing.T) {
	inWorld(t, 5, Config{}, func(w *world) {
		has := vote[lock.Seen]{from: w.Store.members[0], v: lock.Seen{Fence: 7, Holds: []lock.SeenHold{
			{ID: "lock o", Fence: 7, TTL: time.Second},
		}}}
		not := vote[lock.Seen]{from: w.Store.members[0], v: lock.Seen{Fence: 7}}
		for name, row := range map[string]struct {
			said         []vote[lock.Seen]
			seen, unsure bool
		}{
			"by three":                   {[]vote[lock.Seen]{has, has, has}, true, false},
			"by two, and one is silent":  {[]vote[lock.Seen]{has, not, has, not}, true, true},
			"by one, and two are silent": {[]vote[lock.Seen]{not, has, not}, true, true},
			"by one, and one is silent":  {[]vote[lock.Seen]{not, has, not, not}, false, false},
			"by two, and all answered":   {[]vote[lock.Seen]{has, not, has, not, not}, false, false},
			"by nobody":                  {[]vote[lock.Seen]{not, not, not}, false, false},
		} {
			st, agreed := w.Store.seen(row.said)
			seen := len(st.Holds) > 0 && !st.Holds[0].Few
			unsure := seen && st.Holds[0].Unsure
			if seen != row.seen || unsure != row.unsure || agreed && unsure {
				t.Errorf("%s: got %+v, agreed: %v; want it to be seen: %v, unsure: %v",
					name, st.Holds, agreed, row.seen, row.unsure)
			}
		}
	})
}
