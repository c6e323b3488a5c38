package faultrun

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

var (
	control = flag.String("control", ":8080", "with -away: where GET /status tells how it goes, and POST /end ends it")
	cuts    = flag.Bool("cuts", false, "with -away: streams may break, because replicas are killed")
)

// awayLoad is what the clients of replicas elsewhere do.
var awayLoad = load{lockers: 64, keepers: 500, readers: 16, rest: 100 * time.Millisecond}

// status is how it goes.
type status struct {
	Calls   int      `json:"calls"`
	Lost    int      `json:"lost"` // holds of keepers
	Moves   int      `json:"moves"`
	Cuts    int      `json:"cuts"` // streams that broke
	Ends    int      `json:"ends"` // sessions that ended
	Longest string   `json:"longest"`
	Slowest string   `json:"slowest_move"`
	Errors  []string `json:"errors"`
}

// The replicas run elsewhere, such as in pods of Kubernetes. Somebody else does things to them until he says that it is
// over. No call fails, nobody loses anything, and the history is in order.
func TestClientsOfReplicasElsewhere(t *testing.T) {
	if *away == "" {
		t.Skip("needs replicas that run elsewhere: make test-cluster, or -away ADDRESS")
	}
	f := &fleet{
		t: t, away: strings.Fields(*away), ttl: 30 * time.Second, rec: newRecord(),
		rules: rules{lease: 31 * time.Second},
	}
	r := &rollout{f: f, load: awayLoad, over: make(chan struct{})}
	k := keep(f, r.load.keepers)
	for i := range r.load.lockers {
		r.work.Go(func() { r.lockAndUnlock(i) })
	}
	for i := range r.load.readers {
		r.work.Go(func() { r.read(i) })
	}
	r.awaitEnd(k)
	close(r.over)
	r.work.Wait()
	s := r.status(k)
	f.must(errors.Join(r.errs...), k.verify(), k.give())
	t.Logf("%d calls, the longest %v; moves: %s; %d streams broke", r.calls, r.longest, f.howLong(), s.Cuts)
	if !*cuts {
		r.noneCut()
	}
	f.noneLost()
}

// howLong says how long moves from one stream to another took.
func (f *fleet) howLong() string {
	var took []time.Duration
	for _, m := range f.all() {
		for _, mv := range m.moves() {
			took = append(took, mv.to-mv.from)
		}
	}
	if len(took) == 0 {
		return "none"
	}
	slices.Sort(took)
	at := func(part int) time.Duration { return took[(len(took)-1)*part/100].Round(time.Millisecond) }
	return fmt.Sprintf("%d, half of them within %v, 90 %% within %v, 99 %% within %v, all within %v", len(took), at(50),
		at(90), at(99), at(100))
}

// awaitEnd serves those who ask how it goes, until one says that it is over.
func (r *rollout) awaitEnd(k *keepers) {
	r.f.t.Helper()
	end := make(chan struct{}, 1)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(r.status(k))
	})
	mux.HandleFunc("POST /end", func(http.ResponseWriter, *http.Request) {
		select {
		case end <- struct{}{}:
		default:
		}
	})
	l, err := net.Listen("tcp", *control)
	if err != nil {
		r.f.t.Fatal(err)
	}
	s := &http.Server{Handler: mux, ReadHeaderTimeout: harness.Patience}
	go func() { _ = s.Serve(l) }()
	r.f.t.Cleanup(func() { _ = s.Close() })
	r.f.t.Logf("%d clients of %q use locks, %d keep %d each; the status is at %v",
		r.load.lockers+r.load.readers, r.f.away, len(k.each), perSession, l.Addr())
	harness.Within(r.f.t, *length, "somebody says that it is over", func() bool {
		time.Sleep(50 * time.Millisecond)
		return len(end) > 0
	})
}

func (r *rollout) status(k *keepers) (s status) {
	for _, m := range r.f.all() {
		s.Cuts += int(m.cuts.Load())
		s.Ends += int(m.ends.Load())
	}
	for _, locks := range k.locks {
		for _, l := range locks {
			if l.Err() != nil {
				s.Lost++
			}
		}
	}
	n, slowest := r.f.moves()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Calls, s.Moves, s.Longest, s.Slowest = r.calls, n, r.longest.String(), slowest.String()
	for _, err := range r.errs {
		s.Errors = append(s.Errors, err.Error())
	}
	return s
}
