package app

import (
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/redistest"
)

// family is a metric with the values that each of its labels has.
type family map[string][]string

func (f family) add(label, value string) {
	if !slices.Contains(f[label], value) {
		f[label] = append(f[label], value)
		slices.Sort(f[label])
	}
}

var (
	typeLine   = regexp.MustCompile(`(?m)^# TYPE (lockd_\w+) (\w+)$`)
	sampleLine = regexp.MustCompile(`(?m)^(lockd_\w+?)(?:\{(.*)\})? (\S+)$`)
	labelPair  = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
	code       = regexp.MustCompile("`([^`]+)`")
)

// shownFamilies reads what /metrics shows.
func shownFamilies(t *testing.T, text string) map[string]family {
	t.Helper()
	shown := map[string]family{}
	for _, m := range typeLine.FindAllStringSubmatch(text, -1) {
		shown[m[1]] = family{}
	}
	for _, m := range sampleLine.FindAllStringSubmatch(text, -1) {
		f := shown[m[1]]
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			if f == nil {
				f = shown[strings.TrimSuffix(m[1], suffix)]
			}
		}
		if f == nil {
			t.Fatalf("%q belongs to no metric", m[0])
		}
		for _, pair := range labelPair.FindAllStringSubmatch(m[2], -1) {
			if pair[1] != "le" {
				f.add(pair[1], pair[2])
			}
		}
	}
	return shown
}

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
	page, err := os.ReadFile("../../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(page), heading+"\n")
	if !found {
		t.Fatalf("docs/operations.md has no %q", heading)
	}
	text, _, _ := strings.Cut(rest, "\n## ")
	return text
}

// freshMetrics is what /metrics shows before anything happened.
func freshMetrics(t *testing.T) string {
	t.Helper()
	cfg := testConfig()
	cfg.Store.Kind, cfg.Redis.Addr = config.StoreStandalone, redistest.Start(t).Addr
	return metricsOf(t, cfg)
}

// freshMetricsOfAMajority is freshMetrics with RedLock, which has some of its own.
func freshMetricsOfAMajority(t *testing.T) string {
	t.Helper()
	cfg := testConfig()
	cfg.Store.Kind, cfg.Redlock.Members = config.StoreRedlock, redistest.Addrs(redistest.StartMasters(t, 3))
	return metricsOf(t, cfg)
}

func metricsOf(t *testing.T, cfg config.Config) string {
	t.Helper()
	a, _ := start(t, cfg)
	await(t, a, http.StatusOK)
	_, text := get(t, a, "/metrics")
	return text
}

func TestMetricsAreThoseThatAreDocumentedAndExistFromTheStart(t *testing.T) {
	shown, documented := shownFamilies(t, freshMetricsOfAMajority(t)), documentedFamilies(t)
	maps.Copy(shown, shownFamilies(t, freshMetrics(t)))
	for name := range shown {
		if documented[name] == nil {
			t.Errorf("%s is not in the table of docs/operations.md", name)
		}
	}
	for name, labels := range documented {
		f, there := shown[name]
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
}

// Buckets that are too wide hide what a 99th percentile is.
func TestHistogramsResolveTheirPercentiles(t *testing.T) {
	bounds := map[string][]string{}
	for _, m := range sampleLine.FindAllStringSubmatch(freshMetrics(t), -1) {
		if name, is := strings.CutSuffix(m[1], "_bucket"); is {
			le := labelPair.FindAllStringSubmatch(m[2], -1)
			if b := le[len(le)-1][2]; !slices.Contains(bounds[name], b) {
				bounds[name] = append(bounds[name], b)
			}
		}
	}
	if len(bounds) < 6 {
		t.Fatalf("got histograms %v", slices.Sorted(maps.Keys(bounds)))
	}
	for name, les := range bounds {
		before := 0.0
		for _, le := range les {
			if le == "+Inf" {
				continue
			}
			b, err := strconv.ParseFloat(le, 64)
			if err != nil {
				t.Fatal(err)
			}
			if before > 0 && b/before > 2.5001 {
				t.Errorf("%s: from %v to %v is a step of %.1f, want at most 2.5", name, before, b, b/before)
			}
			before = b
		}
	}
}

func TestEachAlertHasACaseInWhichItFires(t *testing.T) {
	names := func(file, pattern string) []string {
		text, err := os.ReadFile("../../deploy/prometheus/" + file)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(text), -1) {
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

// Every limit that refuses is known to /metrics before it does.
func TestLimitsThatRefuseAreCountedFromTheStart(t *testing.T) {
	files, err := filepath.Glob("../broker/*.go")
	if err != nil || len(files) == 0 {
		t.Fatalf("got %d files, %v", len(files), err)
	}
	text := freshMetrics(t)
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`\bdenied\("(\w+)"`).FindAllStringSubmatch(string(source), -1) {
			if want := `lockd_quota_denied_total{subject="` + m[1] + `"} 0`; !strings.Contains(text, want+"\n") {
				t.Errorf("%s: no %s in /metrics", file, want)
			}
		}
	}
}
