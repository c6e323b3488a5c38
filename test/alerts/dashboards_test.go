package alerts

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// alwaysZero are queries that show nothing but zeros here, and why.
var alwaysZero = map[string]string{
	"Leftovers: lockd_settle_dropped_total": "very many releases have to wait for one member",
}

// Each query must have shown a number other than zero: what is about faults, too, as each was caused.
func dashboardsShowSomething(t *testing.T, p *prometheus) {
	t.Helper()
	files, err := filepath.Glob("../../deploy/grafana/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %v, %v", files, err)
	}
	shown := 0
	for _, file := range files {
		var d struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &d)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, panel := range d.Panels {
			for _, q := range panel.Targets {
				shown++
				why := alwaysZero[panel.Title+": "+metricOf(q.Expr)]
				if is := p.shows(t, q.Expr); !is && why == "" {
					t.Errorf("%s: %s shows nothing: %s", filepath.Base(file), panel.Title, q.Expr)
				} else if is && why != "" {
					t.Errorf("%s: %s does show something", filepath.Base(file), panel.Title)
				}
			}
		}
	}
	t.Logf("%d queries showed something but for %d", shown, len(alwaysZero))
}

// variables are what Grafana puts in.
var variables = strings.NewReplacer("$job", "lockd", "$instance", ".+", "$__rate_interval", "3s", "[1h]", "[1m]")

// shows is whether a query ever gave a number other than zero.
func (p *prometheus) shows(t *testing.T, expr string) bool {
	t.Helper()
	return slices.ContainsFunc(p.history(t, variables.Replace(expr)), func(s series) bool {
		return slices.ContainsFunc(s.Values,
			func(v sample) bool { n := v.value(); return n != 0 && !math.IsNaN(n) && !math.IsInf(n, 0) })
	})
}

// metricOf is the first metric of a query.
func metricOf(expr string) string {
	_, name, _ := strings.Cut(expr, "lockd_")
	name, _, _ = strings.Cut(name, "{")
	return "lockd_" + name
}
