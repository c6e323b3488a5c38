package app

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/endpoint"
)

// Somebody who reads the metrics again and again, over many connections, takes no more of the processors than so many
// can. Probes are answered meanwhile.
func TestFewReadTheMetricsAtATime(t *testing.T) {
	reg, reading, goOn := prometheus.NewRegistry(), make(chan struct{}), make(chan struct{})
	reg.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "slow", Help: "Is slow."}, func() float64 {
		reading <- struct{}{}
		<-goOn
		return 1
	}))
	h := opsHandler(false, func() error { return nil }, reg)
	get := func(path string) int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil))
		return w.Code
	}
	var readers sync.WaitGroup
	for range scrapes {
		readers.Go(func() {
			if got := get("/metrics"); got != http.StatusOK {
				t.Errorf("one that was let in got %d", got)
			}
		})
	}
	for range scrapes {
		<-reading
	}
	more := make(chan int, 1)
	go func() { more <- get("/metrics") }()
	if got := get("/readyz"); got != http.StatusOK {
		t.Errorf("a probe got %d", got)
	}
	select {
	case got := <-more:
		if got != http.StatusServiceUnavailable {
			t.Errorf("one more got %d", got)
		}
	case <-reading:
		t.Error("one more reads, too")
	}
	close(goOn)
	readers.Wait()
}

// The listener is closed by whoever comes first, Serve or Shutdown; that must not make a clean stop a failure.
func TestTheOpsServerStopsWithoutAnErrorWhetherItServesOrNot(t *testing.T) {
	for i := range 500 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		a := &App{ops: newOpsServer(http.NotFoundHandler(), zap.NewNop())}
		a.listeners[endpoint.Ops] = l
		served := make(chan error, 1)
		if i%2 == 0 {
			go func() { served <- a.ops.Serve(l) }()
			c, err := net.Dial("tcp", l.Addr().String())
			must(t, err)
			_ = c.Close()
		} else {
			served <- nil
		}
		if err := a.stopOps(t.Context()); err != nil {
			t.Fatalf("stop %d: %v", i, err)
		}
		if err := <-served; err != nil && !errors.Is(err, http.ErrServerClosed) {
			t.Fatalf("serve %d: %v", i, err)
		}
		if again, err := net.Listen("tcp", l.Addr().String()); err != nil {
			t.Fatalf("stop %d: the address is still bound: %v", i, err)
		} else {
			_ = again.Close()
		}
	}
}
