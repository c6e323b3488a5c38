package alerts

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// prometheus is a server with the rules, faster.
type prometheus struct {
	t       *testing.T
	addr    string
	dir     string
	started time.Time
	hc      http.Client

	mu      sync.Mutex        // guards the field below
	targets map[string]string // address to job
}

const prometheusConfig = `
global: {scrape_interval: %[1]dms, scrape_timeout: %[1]dms, evaluation_interval: %[1]dms}
rule_files: [rules.yaml]
scrape_configs:
  - job_name: lockd
    file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]
`

func startPrometheus(t *testing.T) *prometheus {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	p := &prometheus{t: t, addr: l.Addr().String(), dir: t.TempDir(), started: time.Now(), targets: map[string]string{}}
	p.hc = http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: harness.Patience}
	p.write("prometheus.yml", fmt.Sprintf(prometheusConfig, interval.Milliseconds()))
	p.write("rules.yaml", speedUp(t, readRules(t)))
	p.write("targets.json", "[]")
	harness.Must(t, l.Close())
	proctest.Start(t, *prometheusBin, nil, "--config.file="+filepath.Join(p.dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(p.dir, "data"), "--web.listen-address="+p.addr, "--log.level=warn")
	harness.Until(t, "Prometheus is ready", func() bool {
		resp, err := p.hc.Get("http://" + p.addr + "/-/ready")
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // nothing in it is of interest
		return resp.StatusCode == http.StatusOK
	})
	return p
}

// write replaces a file.
func (p *prometheus) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	err := os.WriteFile(path+".new", []byte(text), 0o600)
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	harness.Must(p.t, err)
}

// watch scrapes a page for metrics until the end of a test, and returns when it has been for a while and nothing fires.
func (p *prometheus) watch(t *testing.T, addr string) {
	t.Helper()
	p.aim(addr, true)
	t.Cleanup(func() { p.aim(addr, false) })
	harness.Until(t, "metrics are scraped", func() bool {
		return len(p.query(t, fmt.Sprintf("count_over_time(up{instance=%q}[1m]) > 8", addr))) == 1
	})
	if fired := p.fired(t, addr); len(fired) > 0 {
		t.Fatalf("before the fault %v fired", fired)
	}
}

func (p *prometheus) aim(addr string, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.targets[addr] = "lockd"
	} else {
		delete(p.targets, addr)
	}
	type group struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	groups := []group{}
	for target, job := range maps.All(p.targets) {
		groups = append(groups, group{[]string{target}, map[string]string{"job": job}})
	}
	text, err := json.Marshal(groups)
	harness.Must(p.t, err)
	p.write("targets.json", string(text))
}

// sample is a value at some time.
type sample [2]any

func (s sample) value() float64 {
	text, _ := s[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// series is one answer of a query.
type series struct {
	Metric map[string]string
	Values []sample
}

// until is when it was last seen.
func (s series) until() time.Time {
	at, _ := s.Values[len(s.Values)-1][0].(float64)
	return time.UnixMilli(int64(at * 1000))
}

// after says whether all of it was when something had stood still, or soon after that.
func (s series) after(still []harness.Gap) bool {
	const soon = time.Minute // as ranges are 15 min at most, and what lasts need not do so for longer
	return !slices.ContainsFunc(s.Values, func(v sample) bool {
		seconds, _ := v[0].(float64)
		at := time.UnixMilli(int64(seconds * 1000))
		return !slices.ContainsFunc(still, func(g harness.Gap) bool { return at.After(g.From) && at.Before(g.To.Add(soon)) })
	})
}

// ask asks Prometheus's API.
func (p *prometheus) ask(t testing.TB, path string, form url.Values) (all []series) {
	t.Helper()
	resp, err := p.hc.PostForm("http://"+p.addr+"/api/v1/"+path, form)
	harness.Must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	answer := struct {
		Status string
		Data   struct{ Result *[]series }
	}{}
	answer.Data.Result = &all
	if err == nil {
		err = json.Unmarshal(text, &answer)
	}
	if err != nil || answer.Status != "success" {
		t.Fatalf("%v: %.300s: %v", form, text, err)
	}
	return all
}

// query is what a query gives now, without its values.
func (p *prometheus) query(t testing.TB, q string) []series {
	t.Helper()
	return p.ask(t, "query", url.Values{"query": {q}})
}

// history is what a query gave since the start.
func (p *prometheus) history(t testing.TB, q string) []series {
	t.Helper()
	step := max(interval, time.Since(p.started)/5000) // there is a bound on how many
	return p.ask(t, "query_range", url.Values{
		"query": {q}, "start": {fmt.Sprint(p.started.Unix())}, "end": {fmt.Sprint(time.Now().Unix() + 1)},
		"step": {fmt.Sprint(step.Seconds())},
	})
}

// firing is whether an alert fires now for a page that is scraped.
func (p *prometheus) firing(t testing.TB, alert, addr string) bool {
	t.Helper()
	return len(p.query(t, fmt.Sprintf(`ALERTS{alertstate="firing",alertname=%q,instance=%q}`, alert, addr))) > 0
}

// fired are all alerts that ever fired for a page, with the reason of a loss.
func (p *prometheus) fired(t testing.TB, addr string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	for _, s := range p.history(t, fmt.Sprintf(`ALERTS{alertstate="firing",instance=%q}`, addr)) {
		all[s.Metric["alertname"]] = true
	}
	return all
}
