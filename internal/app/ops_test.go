package app

import (
	"net"
	"net/http"
	"testing"

	"go.uber.org/zap"
)

// The listener is closed by whoever comes first, Serve or Shutdown; that must not make a clean stop a failure.
func TestTheOpsServerStopsWithoutAnErrorWhetherItServesOrNot(t *testing.T) {
	for i := range 500 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := newOpsServer(l, http.NotFoundHandler(), nil, zap.NewNop())
		served := make(chan error, 1)
		if i%2 == 0 {
			go func() { served <- s.serve() }()
			c, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			_ = c.Close()
		} else {
			served <- nil
		}
		if err := s.stop(t.Context()); err != nil {
			t.Fatalf("stop %d: %v", i, err)
		}
		if err := <-served; err != nil {
			t.Fatalf("serve %d: %v", i, err)
		}
		if again, err := net.Listen("tcp", l.Addr().String()); err != nil {
			t.Fatalf("stop %d: the address is still bound: %v", i, err)
		} else {
			_ = again.Close()
		}
	}
}
