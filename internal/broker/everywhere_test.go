package broker_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
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

func TestLeasesOfAllReplicasAreListedWithoutGapsAndRepeats(t *testing.T) {
	inWorld(t, func(w *world) {
		at := []*world{w.named("east"), w.named("west"), w.named("north")}
		var clients []*client
		for i, r := range at {
			clients = append(clients, r.as("client-"+strconv.Itoa(i)))
		}
		const locks = 100
		for i := range locks {
			clients[i%3].takeAs(request.Acquire{Name: fmt.Sprintf("list-%03d", i), Annotation: strings.Repeat("ä", 300)})
			clients[i%3].takeAs(request.Acquire{Name: "shared", Kind: lock.Read})
		}
		all, _ := w.leases(inspect.Filter{Prefix: "list-"}, 7)
		if len(all) != locks {
			t.Fatalf("%d leases are listed, want %d", len(all), locks)
		}
		for i, l := range all {
			h := l.Holder
			if l.Name != fmt.Sprintf("list-%03d", i) || h.Client.Name != "client-"+strconv.Itoa(i%3) || h.Client.Peer == "" ||
				h.Replica != []string{"east", "west", "north"}[i%3] || h.Fence == 0 || h.Kind != lock.Exclusive ||
				len(h.Annotation) != 256 {
				t.Fatalf("lease %d is told as %+v", i, l)
			}
		}
		all, pages := w.leases(inspect.Filter{}, 13)
		if len(all) != 2*locks || !slices.IsSortedFunc(all,
			func(a, b inspect.Leased) int { return inspect.LessKey(a.Key, b.Key) }) {
			t.Errorf("%d leases are listed, want %d in order", len(all), 2*locks)
		}
		if most := 2*locks/13 + 2; pages > most {
			t.Errorf("%d pages, want at most %d", pages, most)
		}
	})
}

func TestListsAreFilteredByWhatIsKnown(t *testing.T) {
	inWorld(t, func(w *world) {
		east, west := w.named("east"), w.named("west")
		old := east.as("billing")
		for i := range 30 {
			old.take("old-" + strconv.Itoa(i))
		}
		time.Sleep(10 * time.Second)
		old.Hear()
		young := west.as("reports")
		young.take("young")
		young.queue("old-1")
		time.Sleep(time.Second)
		for name, test := range map[string]struct {
			filter inspect.Filter
			want   int
		}{
			"all":     {inspect.Filter{}, 31},
			"client":  {inspect.Filter{Client: "port"}, 1},
			"replica": {inspect.Filter{Replica: "east"}, 30},
			"nobody":  {inspect.Filter{Replica: "south"}, 0},
			"age":     {inspect.Filter{MinAge: 5 * time.Second}, 30},
			"both":    {inspect.Filter{Client: "billing", Replica: "west"}, 0},
			"prefix":  {inspect.Filter{Prefix: "you"}, 1},
		} {
			if all, _ := w.leases(test.filter, 4); len(all) != test.want {
				t.Errorf("%s: %d leases, want %d", name, len(all), test.want)
			}
		}
		for name, test := range map[string]struct {
			filter inspect.Filter
			want   int
		}{
			"all": {inspect.Filter{}, 1}, "prefix": {inspect.Filter{Prefix: "old"}, 1},
			"other":  {inspect.Filter{Prefix: "young"}, 0},
			"client": {inspect.Filter{Client: "reports"}, 1}, "age": {inspect.Filter{MinAge: time.Minute}, 0},
		} {
			ws, _, err := east.b.WaitersEverywhere(w.t.Context(), test.filter, 10)
			if err != nil || len(ws) != test.want {
				t.Errorf("%s: got %+v, %v, want %d waiters", name, ws, err, test.want)
			}
			if len(ws) == 1 && (ws[0].Replica != "west" || ws[0].Client != "reports" || ws[0].Name != "old-1" ||
				ws[0].Age != time.Second) {
				t.Errorf("the waiter is told as %+v", ws[0])
			}
		}
	})
}

func TestSessionsOfAllReplicasAreListedWithTheirState(t *testing.T) {
	inWorld(t, func(w *world) {
		at := []*world{w.named("east"), w.named("west")}
		for i := range 20 {
			at[i%2].as("client-" + strconv.Itoa(i))
		}
		gone := at[0].openWith(broker.OpenRequest{Client: session.Client{Name: "gone"}, ComesBack: true})
		gone.take("kept")
		gone.Detach(nil)
		time.Sleep(3 * time.Second)
		list := func(f inspect.Filter) (all []inspect.Session) {
			for after := ""; ; {
				page, next, _, err := w.b.SessionsEverywhere(w.t.Context(), f, after, 3)
				if err != nil {
					t.Fatal(err)
				}
				if all, after = append(all, page...), next; next == "" {
					return all
				}
			}
		}
		all := list(inspect.Filter{})
		if len(all) != 21 || !slices.IsSortedFunc(all,
			func(a, b inspect.Session) int { return strings.Compare(a.ID, b.ID) }) {
			t.Fatalf("%d sessions are listed, want 21 in order", len(all))
		}
		for _, s := range all {
			if detached := s.Client.Name == "gone"; (s.Detached == 3*time.Second) != detached || s.Replica == "" {
				t.Errorf("got %+v", s)
			}
		}
		one := list(inspect.Filter{Detached: true})
		if len(one) != 1 || one[0].Client.Name != "gone" || one[0].Replica != "east" || one[0].Locks != 1 {
			t.Errorf("got %+v", one)
		}
		if some := list(inspect.Filter{Detached: true, MinAge: time.Minute}); len(some) != 0 {
			t.Errorf("got %+v", some)
		}
		if some := list(inspect.Filter{Replica: "west"}); len(some) != 10 {
			t.Errorf("%d sessions at the west, want 10", len(some))
		}
	})
}

func TestAllNamesAreListedWithWhoHoldsThem(t *testing.T) {
	inWorld(t, func(w *world) {
		east, west := w.named("east"), w.named("west")
		east.as("billing").takeAs(request.Acquire{Name: "a", Annotation: "nightly"})
		west.as("waits").queue("a")
		thread := lock.Owner("0f5f1a4c-8a6e-4b6e-9d2b-0d6e3f7a1c22:81")
		for name, owner := range map[string]lock.Owner{"b": thread, "c": "somebody"} {
			c := lock.Claim{Name: name, Kind: lock.Exclusive, Owner: owner, Count: 1, TTL: time.Minute}
			if _, err := w.store.Store.Acquire(w.t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
		names, next, asking, err := west.b.NamesEverywhere(w.t.Context(), "", "", 100)
		if err != nil || next != "" || asking.Answered != 3 || len(names) != 3 {
			t.Fatalf("got %+v, %q, %+v, %v", names, next, asking, err)
		}
		slices.SortFunc(names, func(a, b inspect.Listed) int { return strings.Compare(a.Lock.Name, b.Lock.Name) })
		a, b, c := names[0], names[1], names[2]
		if h := a.Holder; h.Client.Name != "billing" || h.Replica != "east" || h.Annotation != "nightly" ||
			a.Lock.Waiters != 1 ||
			a.Lock.Client != "billing" || h.Origin != inspect.OriginSession {
			t.Errorf("got %+v", a)
		}
		if b.Holder.Origin != inspect.OriginRedisson || b.Holder.Owner != thread || c.Holder.Origin != inspect.OriginOther {
			t.Errorf("got %+v and %+v", b, c)
		}
	})
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

// A release by force through one replica is told to the holder at another one at once, by whom and why. Who does it is
// told who holds the name.
func TestAForcedReleaseIsToldWhereverTheHolderIs(t *testing.T) {
	inWorld(t, func(w *world) {
		there := w.replica()
		c := there.as("billing")
		g := c.take("door")
		c.take("kept")
		by := session.Forced{By: "alice", Why: "stuck"}
		holders, err := w.b.AnnounceForce(w.t.Context(), "door", by)
		if err != nil || len(holders) != 1 || holders[0].Session != c.ID() || holders[0].Client.Name != "billing" ||
			holders[0].Replica != there.b.Replica() {
			t.Fatalf("got %+v, %v", holders, err)
		}
		c.none()
		if released, err := w.b.ForceRelease(w.t.Context(), "door", lock.Exclusive); err != nil || !released {
			t.Fatalf("got %t, %v", released, err)
		}
		if lost := one[session.Lost](c); lost.Hold != g.Hold || lost.Reason != lock.LostForced || lost.Forced != by {
			t.Errorf("got %+v", lost)
		}
	})
}

// What was said of a forced release is not said of another loss of the same name, later or for another reason.
func TestOnlyAForcedReleaseIsToldBySomebody(t *testing.T) {
	inWorld(t, func(w *world) {
		for _, lose := range []func(){
			func() {
				w.lose()
				time.Sleep(11 * time.Second)
			},
			func() {
				time.Sleep(2 * time.Minute)
				if released, err := w.b.ForceRelease(w.t.Context(), "door", lock.Exclusive); err != nil || !released {
					t.Fatalf("got %t, %v", released, err)
				}
			},
		} {
			c := w.alive()
			c.take("door")
			if _, err := w.b.AnnounceForce(w.t.Context(), "door", session.Forced{By: "alice", Why: "stuck"}); err != nil {
				t.Fatal(err)
			}
			lose()
			if lost := one[session.Lost](c); lost.Forced != (session.Forced{}) {
				t.Errorf("got %+v", lost)
			}
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
		if known != 1000 || w.b.ForcedBy("1499").By != "1499" {
			t.Errorf("%d are remembered, want the last 1000", known)
		}
	})
}
