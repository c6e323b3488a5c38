package app

import (
	"cmp"
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry has what is known of every process, and which build this one is.
func newRegistry() *prometheus.Registry {
	reg := prometheus.NewRegistry()
	info := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "lockd_build_info",
		Help: "Always 1; the labels say which build this is.",
		ConstLabels: prometheus.Labels{
			"version": Version, "revision": revision(), "go_version": runtime.Version(),
		},
	})
	info.Set(1)
	reg.MustRegister(info, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return reg
}

// Version is what this build calls itself. main sets it before anything else, if it knows better.
var Version = cmp.Or(build().Main.Version, "unknown")

// build is what the go command says of this build.
func build() debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return *info
	}
	return debug.BuildInfo{}
}

// revision is the commit of this build.
func revision() string {
	for _, s := range build().Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return "unknown"
}
