package app

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/lockd-io/lockd/internal/config"
)

// deployed is where what runs beside lockd is.
const deployed = "../../deploy"

var (
	metricName = regexp.MustCompile(`\blockd_\w+`)
	selector   = regexp.MustCompile(`\b(lockd_\w+)\{([^}]*)\}`)
	matcher    = regexp.MustCompile(`(\w+)\s*(?:=~|!~|!=|=)`)
	grouping   = regexp.MustCompile(`\bby\s*\(([^)]*)\)`)
)

// known finds what a query asks for that no metric has.
func known(t *testing.T, where, query string, documented map[string]family) {
	t.Helper()
	ours := []string{"job", "instance", "le"}
	labels := slices.Clone(ours)
	for _, name := range metricName.FindAllString(query, -1) {
		f := familyOf(name, documented)
		if f == nil {
			t.Errorf("%s asks for %s, which docs/operations.md does not have", where, name)
		}
		labels = slices.AppendSeq(labels, maps.Keys(f))
	}
	for _, s := range selector.FindAllStringSubmatch(query, -1) {
		f := familyOf(s[1], documented)
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			if f[m[1]] == nil && !slices.Contains(ours, m[1]) {
				t.Errorf("%s asks for the label %s, which %s has not", where, m[1], s[1])
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(g[1], ",") {
			if label = strings.TrimSpace(label); label != "" && !slices.Contains(labels, label) {
				t.Errorf("%s groups by %s, which no metric in %s has", where, label, query)
			}
		}
	}
}

func familyOf(name string, documented map[string]family) family {
	for _, suffix := range []string{"", "_bucket", "_count", "_sum"} {
		if f := documented[strings.TrimSuffix(name, suffix)]; f != nil {
			return f
		}
	}
	return nil
}

func TestDashboardsShowWhatThereIs(t *testing.T) {
	documented := documentedFamilies(t)
	files, err := filepath.Glob(deployed + "/grafana/*.json")
	if err != nil || len(files) < 5 {
		t.Fatalf("got %v, %v", files, err)
	}
	uids := map[string]string{}
	for _, file := range files {
		var d struct {
			UID, Title string
			Panels     []struct {
				ID                 int
				Title, Description string
				GridPos            struct{ X, Y, W, H int }
				Targets            []struct{ Expr string }
			}
		}
		if err := json.Unmarshal([]byte(textOf(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if uids[d.UID] != "" || d.UID == "" || d.Title == "" {
			t.Errorf("%s has the uid %q, as %s", file, d.UID, uids[d.UID])
		}
		uids[d.UID] = file
		for _, p := range d.Panels {
			where := filepath.Base(file) + ": " + p.Title
			if p.Title == "" || p.Description == "" || len(p.Targets) == 0 || p.GridPos.X+p.GridPos.W > 24 {
				t.Errorf("%s: panel %d has no title, description or query, or is too wide", file, p.ID)
			}
			for _, q := range p.Targets {
				if !strings.Contains(q.Expr, "$instance") {
					t.Errorf("%s shows all instances: %s", where, q.Expr)
				}
				known(t, where, q.Expr, documented)
			}
		}
	}
}

func TestAlertsAskForWhatThereIsAndHaveRunbooks(t *testing.T) {
	documented := documentedFamilies(t)
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	readYAML(t, deployed+"/prometheus/lockd.rules.yaml", &rules)
	sections := map[string]string{}
	for _, s := range strings.Split(textOf(t, "../../docs/runbooks.md"), "\n## ")[1:] {
		alert, text, _ := strings.Cut(s, "\n")
		sections[alert] = text
	}
	for _, r := range rules.Groups[0].Rules {
		known(t, r.Alert, r.Expr, documented)
		url := "https://github.com/lockd-io/lockd/blob/main/docs/runbooks.md#" + strings.ToLower(r.Alert)
		if got := r.Annotations["runbook_url"]; got != url {
			t.Errorf("%s leads to %q, want %q", r.Alert, got, url)
		}
		for _, want := range []string{"**What it means.** ", "**Look.**", "**Do.** "} {
			if !strings.Contains(sections[r.Alert], want) {
				t.Errorf("the runbook of %s has no %q", r.Alert, want)
			}
		}
		delete(sections, r.Alert)
	}
	for alert := range sections {
		t.Errorf("there is a runbook for %s, and no such alert", alert)
	}
}

// What compose mounts is there, what it starts lockd with is right, and it waits as long as lockd stops.
func TestCompose(t *testing.T) {
	var c struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Volumes     []string
			Grace       string `yaml:"stop_grace_period"`
			ReadOnly    bool   `yaml:"read_only"`
		}
	}
	readYAML(t, deployed+"/compose/compose.yaml", &c)
	for name, s := range c.Services {
		for _, v := range s.Volumes {
			if from, _, _ := strings.Cut(v, ":"); strings.HasPrefix(from, ".") {
				if _, err := os.Stat(filepath.Join(deployed, "compose", from)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if !strings.HasPrefix(name, "lockd-") {
			continue
		}
		for k, v := range s.Environment {
			t.Setenv(k, v) // the replicas have the same variables
		}
		args, err := config.ParseArgs(s.Command)
		must(t, err)
		cfg, err := config.Load(args)
		if err != nil || cfg.Replica != name || !s.ReadOnly || s.Grace != "25s" || cfg.Shutdown.Timeout.Seconds() != 20 {
			t.Errorf("%s: got %+v, %v", name, cfg, err)
		}
	}
}

// Prometheus scrapes what the alerts ask: each replica, and what tells of Redis.
func TestComposeHasWhatTheAlertsAsk(t *testing.T) {
	var c struct{ Services map[string]any }
	readYAML(t, deployed+"/compose/compose.yaml", &c)
	var p struct {
		Jobs []struct {
			Name    string                       `yaml:"job_name"`
			Targets []struct{ Targets []string } `yaml:"static_configs"`
		} `yaml:"scrape_configs"`
	}
	readYAML(t, deployed+"/compose/prometheus.yml", &p)
	scraped := make(map[string]string)
	for _, job := range p.Jobs {
		for _, target := range job.Targets[0].Targets {
			host, _, _ := strings.Cut(target, ":")
			scraped[host] = job.Name
			if c.Services[host] == nil {
				t.Errorf("%s is scraped, and there is no such service", host)
			}
		}
	}
	for service := range c.Services {
		if strings.HasPrefix(service, "lockd-") && scraped[service] != "lockd" {
			t.Errorf("%s is not scraped", service)
		}
	}
	rules := textOf(t, deployed+"/prometheus/lockd.rules.yaml")
	if strings.Contains(rules, "redis_evicted_keys_total") && scraped["redis-exporter"] != "redis" {
		t.Error("an alert asks the exporter of Redis, and there is none")
	}
}

func textOf(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	return string(text)
}

func readYAML(t *testing.T, path string, to any) {
	t.Helper()
	must(t, yaml.Unmarshal([]byte(textOf(t, path)), to))
}

// systemd looks at the exit code of ExecStart only, so that is who says that the configuration is wrong.
func TestTheUnitStartsAgainUnlessTheConfigurationIsWrong(t *testing.T) {
	text := textOf(t, deployed+"/systemd/lockd.service")
	for line, want := range map[string]bool{
		"\nRestart=always\n": true, "\nStartLimitIntervalSec=0\n": true, "\nRestartPreventExitStatus=2 78\n": true,
		"\nExecStartPre=": false,
	} {
		if strings.Contains(text, line) != want {
			t.Errorf("%q: want it there: %v", line, want)
		}
	}
}
