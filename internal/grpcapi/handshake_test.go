package grpcapi

import (
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
	"google.golang.org/grpc/credentials"
)

// refusing is a handshake that fails.
type refusing struct {
	credentials.TransportCredentials
	err error
}

func (r refusing) ServerHandshake(net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, r.err
}

// Anybody can cause handshakes that fail: they are counted, and one in a second is logged.
func TestFailedHandshakesFillNoLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, log := observer.New(zapcore.WarnLevel)
		reg := prometheus.NewRegistry()
		m := newMetrics(reg)
		mine, theirs := net.Pipe()
		defer mine.Close()
		defer theirs.Close()
		c := &telling{log: zap.New(core), failed: m.handshakes.WithLabelValues("listen")}
		try := func(err error) {
			c.TransportCredentials = refusing{err: err}
			if _, _, got := c.Clone().ServerHandshake(mine); !errors.Is(got, err) {
				t.Errorf("got %v, want %v", got, err)
			}
		}
		why := errors.New("a reason")
		for range 1000 {
			try(why)
		}
		try(io.EOF) // a probe of the port
		time.Sleep(time.Second)
		try(why)
		lines := log.All()
		if len(lines) != 2 || lines[0].ContextMap()["more"] != int64(0) || lines[1].ContextMap()["more"] != int64(999) {
			t.Errorf("got %v", lines)
		}
		if got := counted(t, reg, "lockd_tls_handshakes_failed_total"); got != 1001 {
			t.Errorf("counted %v", got)
		}
	})
}

// counted is the sum of a counter over all its labels.
func counted(t *testing.T, reg *prometheus.Registry, name string) (sum float64) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if f.GetName() == name {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}
