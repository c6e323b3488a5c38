package app

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"
)

// opsServer is the HTTP server for operators.
type opsServer struct {
	http   *http.Server
	listen net.Listener
}

// newOpsServer serves over TLS if secure is not nil.
func newOpsServer(l net.Listener, h http.Handler, secure *tls.Config, log *zap.Logger) *opsServer {
	errorLog, _ := zap.NewStdLogAt(log.Named("ops"), zap.WarnLevel) // Warn is a level it knows
	return &opsServer{listen: l, http: &http.Server{
		Handler:           h,
		TLSConfig:         secure,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // a profile takes 30 s by default
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errorLog,
	}}
}

func (s *opsServer) serve() error {
	serve := s.http.Serve
	if s.http.TLSConfig != nil {
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	}
	if err := serve(s.listen); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// stop lets requests end, and cuts those that do not in time.
func (s *opsServer) stop(ctx context.Context) error {
	err := s.http.Shutdown(ctx) // closes the listener if it serves
	_ = s.listen.Close()        // for when it never came to serve
	if err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}

// scrapes is how many may read the metrics at a time. It takes some milliseconds of a processor.
const scrapes = 4

// opsHandler answers probes and metrics. /healthz says that the process lives, whatever else is down: a restart would
// not bring Redis back. /readyz says whether new clients should come here.
func opsHandler(withPprof bool, ready func() error, reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	// Who does not read the page keeps nobody else from it: it is made before it is sent.
	mux.Handle("GET /metrics", http.TimeoutHandler(promhttp.HandlerFor(reg, promhttp.HandlerOpts{
		Registry: reg, EnableOpenMetrics: true, MaxRequestsInFlight: scrapes,
	}), 30*time.Second, ""))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready(); err != nil {
			answer(w, http.StatusServiceUnavailable, "not ready: "+err.Error())
			return
		}
		answer(w, http.StatusOK, "ready")
	})
	if withPprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return mux
}

func answer(w http.ResponseWriter, code int, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, _ = io.WriteString(w, text+"\n") // a prober that left does not matter
}
