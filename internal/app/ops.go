package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/endpoint"
)

// newOpsServer is the HTTP server for operators.
func newOpsServer(h http.Handler, log *zap.Logger) *http.Server {
	errorLog, _ := zap.NewStdLogAt(log.Named("ops"), zap.WarnLevel) // Warn is a level it knows
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: 5 * time.Second,
		ReadTimeout:       10 * time.Second,
		WriteTimeout:      time.Minute, // a profile takes 30 s by default
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          errorLog,
	}
}

// stopOps lets requests end, and cuts those that do not in time.
func (a *App) stopOps(ctx context.Context) error {
	err := a.ops.Shutdown(ctx)            // closes the listener if it serves
	_ = a.listeners[endpoint.Ops].Close() // for when it never came to serve
	if err != nil {
		return errors.Join(err, a.ops.Close())
	}
	return nil
}

// scrapes is how many may read the metrics at a time. It takes some milliseconds of a processor.
const scrapes = 4

// opsHandler answers probes and metrics. /healthz says that the process lives, whatever else is down: a restart would
// not bring Redis back. /readyz says whether new clients should come here.
func opsHandler(withPprof bool, ready func() error, reg *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	// The page is made before it is sent, so who does not read it keeps nobody else from it.
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
