package redlock

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// A holder that writes and reads keeps both when masters are restarted one after the other, in whatever order and
// together or not its holds are renewed.
func TestAReadHoldBesideAWriteHoldOutlivesTheRestartOfEachMember(t *testing.T) {
	const write, read = 0, 1
	for name, rounds := range map[string][][]int{
		"the writer first": {{write, read}},
		"the reader first": {{read, write}},
		"apart":            {{write}, {read}},
		"apart, reversed":  {{read}, {write}},
	} {
		for _, ttl := range []time.Duration{10 * time.Second, 0} {
			inWorld(t, 3, Config{Quarantine: time.Hour}, func(w *world) {
				cs := w.besides()
				rs := make([]lock.Renewal, len(cs))
				for i, c := range cs {
					rs[i] = renewalOf(c.Name, c.Owner, w.take(w.Store, c).Fence)
					rs[i].Kind, rs[i].TTL = c.Kind, ttl
				}
				synctest.Wait()
				for _, n := range w.nodes {
					n.restart()
					for _, round := range rounds {
						w.renewAll(name, rs, round)
					}
					time.Sleep(2 * time.Second)
				}
				for i, n := range w.nodes {
					hs, _ := n.Store.Holders(w.Context(), "n", lock.MaxSeen)
					if len(hs) != 2 {
						t.Errorf("%s: member %d has %+v", name, i, hs)
					}
				}
				for i := range cs {
					w.give(w.Store, lock.Return{Name: "n", Kind: cs[i].Kind, Owner: cs[i].Owner, Fence: rs[i].Fence})
				}
				synctest.Wait()
				w.wantHolders("n", "", "", "")
			})
		}
	}
}

// besides are claims of a holder that writes and reads.
func (w *world) besides() []lock.Claim {
	write, read := claimOf("n", "s:h#1"), claimOf("n", "s:h#2")
	write.Kind, write.TTL = lock.Write, time.Minute
	read.Kind, read.TTL, read.WriteOwner = lock.Read, time.Minute, write.Owner
	return []lock.Claim{write, read}
}

// renewAll renews some of the holds in one call, all of which must be there.
func (w *world) renewAll(what string, rs []lock.Renewal, which []int) {
	w.Helper()
	var some []lock.Renewal
	for _, i := range which {
		some = append(some, rs[i])
	}
	w.Renew(w.Context(), some, func(i int, err error) {
		if err != nil {
			w.Errorf("%s: %v: %v", what, some[i].Kind, err)
		}
	})
}

// A member that is asked for a read hold before it has the write hold of the same holder would not take that any more.
func TestAReadHoldWaitsForTheWriteHold(t *testing.T) {
	inWorld(t, 3, Config{}, func(w *world) {
		w.nodes[2].choose(once("acquire", fate{before: 300 * time.Millisecond}))
		for _, c := range w.besides() {
			w.take(w.Store, c)
		}
		time.Sleep(time.Second)
		w.wantHolders("n", "s:h#1", "s:h#1", "s:h#1")
		for i, n := range w.nodes {
			if hs, _ := n.Store.Holders(w.Context(), "n", lock.MaxSeen); len(hs) != 2 {
				t.Errorf("member %d has %+v", i, hs)
			}
		}
	})
}

// A writer that waits keeps new readers away, but not those that a majority has.
func TestReadersOutliveTheRestartOfEachMemberBesideAWaitingWriter(t *testing.T) {
	inWorld(t, 3, Config{Quarantine: time.Hour}, func(w *world) {
		var rs []lock.Renewal
		for i := range 3 {
			c := claimOf("n", lock.Owner(fmt.Sprint("s:#", i)))
			c.Kind, c.TTL = lock.Read, time.Minute
			r := renewalOf("n", c.Owner, w.take(w.Store, c).Fence)
			r.Kind = lock.Read
			rs = append(rs, r)
		}
		synctest.Wait()
		waits := claimOf("n", "s:#w")
		waits.Kind, waits.Place = lock.Write, 6*time.Second
		for _, n := range w.nodes {
			n.restart()
			for i := range rs {
				w.renewAll("beside a writer that waits", rs, []int{i})
				time.Sleep(time.Second)
				if _, err := w.Store.Acquire(w.Context(), waits); err == nil {
					t.Fatal("a writer beside readers")
				}
				time.Sleep(time.Second)
			}
		}
		w.renewAll("at last", rs, []int{0, 1, 2})
	})
}

// What is put back lasts as long as it does elsewhere, also if less is asked for when it is renewed: a holder that is
// renewed may have taken it once more for a fixed time.
func TestAHoldThatIsPutBackLastsAsLongAsBefore(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Write, lock.Read} {
		inWorld(t, 3, Config{}, func(w *world) {
			c := claimOf("n", "s:h#1")
			c.Kind = kind
			c.Fence = w.take(w.Store, c).Fence
			c.Count, c.TTL = 2, time.Hour
			w.take(w.Store, c)
			synctest.Wait()
			for _, n := range w.nodes {
				n.restart()
				r := renewalOf("n", c.Owner, c.Fence)
				r.Kind = kind
				if err := w.renew(r); err != nil {
					t.Fatal(err)
				}
				time.Sleep(time.Second)
			}
			time.Sleep(58 * time.Minute)
			w.wantHolders("n", c.Owner, c.Owner, c.Owner)
		})
	}
}

// A renewal that a release overtakes at a member finds nothing there, although a majority has the hold. What is put
// back then does not outlive the release.
func TestARenewalThatMeetsAReleaseLeavesNothing(t *testing.T) {
	const ms = time.Millisecond
	for name, others := range map[string]time.Duration{
		"it is over before":          10 * ms,
		"others do it in the middle": 21 * ms,
		"others do it later":         40 * ms,
		"others do it much later":    300 * ms,
	} {
		for _, kind := range []lock.Kind{lock.Exclusive, lock.Write, lock.Read} {
			inWorld(t, 3, Config{}, func(w *world) {
				c := claimOf("n", "o")
				c.Kind, c.TTL = kind, time.Hour
				f := w.take(w.Store, c).Fence
				synctest.Wait()
				for i, n := range w.nodes {
					n.choose(func(op string) fate {
						switch {
						case op == "renew" && i == 2:
							return fate{before: 20 * ms}
						case op == "release" && i == 2:
							return fate{before: 10 * ms}
						case op == "release":
							return fate{before: others}
						}
						return fate{before: 2 * ms, after: 2 * ms}
					})
				}
				renewal, release := renewalOf("n", "o", f), returnOf("n", "o", f)
				renewal.Kind, release.Kind = kind, kind
				go func() { _ = w.renew(renewal) }()
				w.give(w.Store, release)
				time.Sleep(3 * time.Second)
				if os := w.holders("n"); fmt.Sprint(os) != fmt.Sprint([]lock.Owner{"", "", ""}) {
					t.Errorf("%v, %s: %q have it", kind, name, os)
				}
				time.Sleep(time.Minute)
				if n := w.Store.restores.len(); n > 0 && !w.Store.restores.none() {
					t.Errorf("%v, %s: %d holds are remembered", kind, name, n)
				}
			})
		}
	}
}

// A hold that ends while it is put back does not stay: it was freed by force, or another replica released it.
func TestAHoldThatEndsWhileItIsPutBackDoesNotStay(t *testing.T) {
	for _, kind := range []lock.Kind{lock.Exclusive, lock.Write, lock.Read} {
		for name, end := range map[string]func(w *world, r lock.Return){
			"force": func(w *world, r lock.Return) {
				if held, err := w.Store.ForceRelease(w.Context(), "n", kind); err != nil || !held {
					t.Errorf("got %v, %v", held, err)
				}
			},
			"force by another replica": func(w *world, r lock.Return) {
				if held, err := w.another(Config{}).ForceRelease(w.Context(), "n", kind); err != nil || !held {
					t.Errorf("got %v, %v", held, err)
				}
			},
			"release by another replica": func(w *world, r lock.Return) { w.give(w.another(Config{}), r) },
			"keys deleted": func(w *world, r lock.Return) {
				for _, n := range w.nodes {
					n.Store.Expire("n")
				}
			},
		} {
			inWorld(t, 5, Config{}, func(w *world) {
				c := claimOf("n", "s:#o")
				c.Kind, c.TTL = kind, time.Hour
				f := w.take(w.Store, c).Fence
				synctest.Wait()
				for _, n := range w.nodes[3:] {
					n.restart()
					n.choose(func(op string) fate {
						if op == "acquire" {
							return fate{before: 50 * time.Millisecond}
						}
						return fate{}
					})
				}
				renewal, release := renewalOf("n", c.Owner, f), returnOf("n", c.Owner, f)
				renewal.Kind, release.Kind = kind, kind
				if err := w.renew(renewal); err != nil {
					t.Fatal(err)
				}
				time.Sleep(20 * time.Millisecond)
				end(w, release)
				time.Sleep(5 * time.Second)
				for i, n := range w.nodes {
					if hs, _ := n.Store.Holders(w.Context(), "n", 10); len(hs) > 0 {
						t.Errorf("%v, %s: member %d has %+v", kind, name, i, hs)
					}
				}
			})
		}
	}
}
