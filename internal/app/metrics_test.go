package app

import (
	"errors"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/topology"
)

// family is a metric with the values that each of its labels has.
type family map[string][]string

func (f family) add(label, value string) {
	if !slices.Contains(f[label], value) {
		f[label] = append(f[label], value)
		slices.Sort(f[label])
	}
}

var code = regexp.MustCompile("`([^`]+)`")

// documentedFamilies reads the table of docs/operations.md. A label without values can have any.
func documentedFamilies(t *testing.T) map[string]family {
	t.Helper()
	documented := map[string]family{}
	for line := range strings.Lines(section(t, "## Metrics")) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 || !strings.HasPrefix(strings.TrimSpace(cells[1]), "`lockd_") {
			continue
		}
		f := family{}
		documented[code.FindStringSubmatch(cells[1])[1]] = f
		for label := range strings.SplitSeq(strings.TrimSpace(cells[2]), ";") {
			name, values, _ := strings.Cut(label, ":")
			if name = strings.Trim(name, " `"); name == "" {
				continue
			}
			f[name] = []string{}
			for _, v := range code.FindAllStringSubmatch(values, -1) {
				f.add(name, v[1])
			}
		}
	}
	return documented
}

// section is a part of the page for operators, from its heading to the next one.
func section(t *testing.T, heading string) string {
	t.Helper()
	_, rest, found := strings.Cut(textOf(t, "../../docs/operations.md"), heading+"\n")
	if !found {
		t.Fatalf("docs/operations.md has no %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// shown is what /metrics shows before anything happened, and the bounds of the buckets of its histograms. The Redis
// that is configured is not there.
func shown(t *testing.T) (all map[string]family, bounds map[string][]float64) {
	t.Helper()
	all, bounds = map[string]family{}, map[string][]float64{}
	for kind, members := range map[string][]string{
		topology.Standalone: nil, topology.Redlock: {"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3"},
	} {
		cfg := testConfig()
		cfg.Store.Kind, cfg.Redis.Addr, cfg.Redlock.Members = kind, "127.0.0.1:1", members
		cfg.Security.ClientsFile = certstest.Write(t, filepath.Join(t.TempDir(), "clients"), []byte(oneClient))
		cfg.HTTPListen = "127.0.0.1:0"
		cfg.ConsoleListen = "127.0.0.1:0"
		a, err := New(cfg, zap.NewNop())
		must(t, err)
		families, err := a.reg.Gather()
		must(t, errors.Join(err, a.close()))
		for _, f := range families {
			name := f.GetName()
			if !strings.HasPrefix(name, "lockd_") {
				continue
			}
			if all[name] == nil {
				all[name] = family{}
			}
			bounds[name] = nil
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					all[name].add(l.GetName(), l.GetValue())
				}
			}
			for _, b := range f.GetMetric()[0].GetHistogram().GetBucket() {
				bounds[name] = append(bounds[name], b.GetUpperBound())
			}
		}
	}
	return all, bounds
}

func TestMetricsAreThoseThatAreDocumentedAndExistFromTheStart(t *testing.T) {
	documented := documentedFamilies(t)
	all, bounds := shown(t)
	for name := range all {
		if documented[name] == nil {
			t.Errorf("%s is not in the table of docs/operations.md", name)
		}
		before := 0.0
		for _, b := range bounds[name] { // too wide ones hide what a 99th percentile is
			if before > 0 && b/before > 2.5001 {
				t.Errorf("%s: from %v to %v is a step of %.1f, want at most 2.5", name, before, b, b/before)
			}
			before = b
		}
	}
	for name, labels := range documented {
		f, there := all[name]
		if !there {
			t.Errorf("%s is documented, but not shown", name)
			continue
		}
		if got, want := slices.Sorted(maps.Keys(f)), slices.Sorted(maps.Keys(labels)); !slices.Equal(got, want) {
			t.Errorf("%s has the labels %v from the start, documented are %v", name, got, want)
		}
		for label, want := range labels {
			if got := f[label]; len(want) > 0 && !slices.Equal(got, want) {
				t.Errorf("%s: %s can be %v from the start, documented are %v", name, label, got, want)
			}
		}
	}
	// Every limit that refuses is known before it does.
	files, err := filepath.Glob("../broker/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	for _, file := range files {
		for _, m := range regexp.MustCompile(`\bdenied\("(\w+)"`).FindAllStringSubmatch(textOf(t, file), -1) {
			if !slices.Contains(all["lockd_quota_denied_total"]["subject"], m[1]) {
				t.Errorf("%s: lockd_quota_denied_total has no %s", file, m[1])
			}
		}
	}
}

func TestEachAlertHasACaseInWhichItFires(t *testing.T) {
	names := func(file, pattern string) []string {
		text := textOf(t, deployed+"/prometheus/"+file)
		var found []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
			found = append(found, m[1])
		}
		slices.Sort(found)
		return slices.Compact(found)
	}
	rules := names("lockd.rules.yaml", `- alert: (\w+)`)
	if cases := names("lockd.rules.test.yaml", `alertname: (\w+)\n\s+exp_alerts:\n`); !slices.Equal(rules, cases) {
		t.Errorf("alerts are %v, those with a case in which they fire %v", rules, cases)
	}
}
