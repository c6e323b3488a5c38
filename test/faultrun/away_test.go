package faultrun

import (
	"encoding/json"
	"errors"
	"flag"
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
	w := newWorld(t, 30*time.Second, func(w *world) { w.away, w.at, w.rec = true, strings.Fields(*away), newRecord() })
	r := &rollout{world: w, load: awayLoad, over: make(chan struct{})}
	k := w.keepers(r.load.keepers)
	r.begin()
	r.awaitEnd(k)
	close(r.over)
	r.work.Wait()
	w.must(errors.Join(r.errs...), k.verify(), k.give())
	t.Logf("%d calls, the longest %v; %s", r.calls, r.longest, howLong(w.moves()))
	if !*cuts {
		w.must(w.noneCut())
	}
	w.noneLost()
}

// awaitEnd serves those who ask how it goes, until one says that it is over.
func (r *rollout) awaitEnd(k *keepers) {
	r.t.Helper()
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
	harness.Must(r.t, err)
	s := &http.Server{Handler: mux, ReadHeaderTimeout: harness.Patience}
	go func() { _ = s.Serve(l) }()
	r.t.Cleanup(func() { _ = s.Close() })
	r.t.Logf("%d clients of %q use locks, %d keep %d each; the status is at %v",
		r.load.lockers+r.load.readers, r.at, len(k.each), perSession, l.Addr())
	harness.Within(r.t, *length, "somebody says that it is over", func() bool {
		time.Sleep(50 * time.Millisecond)
		return len(end) > 0
	})
}

func (r *rollout) status(k *keepers) (s status) {
	for _, m := range r.all() {
		s.Cuts += int(m.cuts.Load())
		s.Ends += int(m.ends.Load())
	}
	moves := r.moves()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.Calls, s.Lost, s.Moves, s.Longest = r.calls, k.lost(), len(moves), r.longest.String()
	s.Slowest = slices.Max(append(moves, 0)).String()
	for _, err := range r.errs {
		s.Errors = append(s.Errors, err.Error())
	}
	return s
}
