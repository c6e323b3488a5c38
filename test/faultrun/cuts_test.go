package faultrun

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// behindLinks has one replica of lockd use servers, each behind a proxy.
func (w *world) behindLinks(servers []*redistest.Server) (links []*redistest.Proxy) {
	var addrs []string
	n := len(servers)
	for _, s := range servers {
		links = append(links, redistest.StartProxy(w.t, s.Addr))
		addrs = append(addrs, links[len(links)-1].Addr)
	}
	if all := strings.Join(addrs, ","); n == 1 {
		w.env = append(w.env, "LOCKD_STORE_KIND=standalone", "LOCKD_REDIS_ADDR="+all)
	} else {
		w.rules.votes = true
		w.env = append(w.env, "LOCKD_STORE_KIND=redlock", "LOCKD_REDLOCK_MEMBERS="+all)
	}
	w.start(1)
	if n > 1 {
		w.allVote() // a server that is new votes when all were met: nothing is cut before
	}
	return links
}

// cutLate breaks the connection for requests through a proxy in the middle of one. What was sent on it arrives up to so
// much later, at the server, at lockd, or at both.
func (w *world) cutLate(p *redistest.Proxy, most time.Duration) {
	w.t.Helper()
	before := p.LateCounts().Cut
	c := &redistest.LateCut{
		On: func(name string, request []byte) bool {
			return name == "lockd" && bytes.Contains(request, []byte("evalsha"))
		},
		InTime: []float64{0, w.rand.Float64(), w.rand.Float64(), 1}[w.rand.IntN(4)],
		Silent: w.rand.IntN(4) == 0,
	}
	c.Requests = w.between(most/20, most)
	if w.rand.IntN(2) == 0 {
		c.Answers = w.between(most/20, most)
	}
	p.CutLate(c)
	harness.Until(w.t, "a connection is cut", func() bool { return p.LateCounts().Cut > before })
	w.sleep(0, 50*time.Millisecond)
}

// counts are those of all links together, when nothing is under way any more.
func counts(w *world, links []*redistest.Proxy) (all redistest.LateCounts) {
	w.t.Helper()
	for _, p := range links {
		harness.Until(w.t, "nothing is under way any more", func() bool { return p.LateCounts().Pending == 0 })
		n := p.LateCounts()
		all.Cut, all.Kept, all.Whole, all.Ended = all.Cut+n.Cut, all.Kept+n.Kept, all.Whole+n.Whole, all.Ended+n.Ended
		all.Done, all.Overtaken = all.Done+n.Done, all.Overtaken+n.Overtaken
	}
	return all
}

// Connections to Redis break while clients use locks, and deliver late what was sent on them: nothing of it is done
// behind what lockd asked for later. The control test does not end those connections, and finds what is.
func TestWhatBrokenConnectionsDeliverLateIsNotDone(t *testing.T) {
	t.Parallel()
	for what, masters := range map[string]int{"one Redis": 1, "a majority of five": 5} {
		for _, ends := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, connections are ended: %v", what, ends), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, shortTTL, func(*world) {})
				servers := redistest.StartMasters(t, masters)
				links := w.behindLinks(servers)
				for _, p := range links {
					if !ends {
						p.Spare()
					}
				}
				calm := w.goroutines()
				watched := w.watch(servers)
				crowd := begin(t.Context(), w.players(false))
				overtaken := func(p *redistest.Proxy) bool { return p.LateCounts().Overtaken > 0 }
				found := func() bool { return !ends && slices.ContainsFunc(links, overtaken) }
				for i := 0; i < 1000 && !found() && (!ends || i < tier.Pick(30, 1000)); i++ {
					w.cutLate(links[w.rand.IntN(len(links))], tier.Pick(2*time.Second, 20*time.Second))
				}
				served := crowd.end(3*w.ttl + harness.Patience)
				watched()
				n := counts(w, links)
				t.Logf("%+v", n)
				if !ends {
					if n.Overtaken == 0 {
						t.Error("nothing late was done: the test could not find it")
					}
					return
				}
				for _, m := range w.all() {
					_ = m.Close()
				}
				w.must(served, w.check())
				w.settle(calm)
				if n.Overtaken > 0 || n.Ended == 0 {
					t.Errorf("%d late deliveries were done behind later requests, and %d met an end", n.Overtaken, n.Ended)
				}
			})
		}
	}
}
