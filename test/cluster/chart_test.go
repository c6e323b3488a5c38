package cluster

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

// definitions tells the API server what the chart's objects for others are.
func definitions(t *testing.T) {
	t.Helper()
	dir := filepath.Join(root, ".cache", "cluster", "crds")
	must(t, "kubectl apply --server-side -f "+dir)
	t.Cleanup(func() { must(t, "kubectl delete --wait=true -f "+dir) })
	must(t, "kubectl wait --for=condition=Established customresourcedefinition --all --timeout=1m")
}

// dryRun asks the API server what it thinks of objects: kubectl's words, with the warnings.
func dryRun(objects string) (string, error) {
	return try(objects, "sh", "-c", "kubectl -n "+space+" apply --dry-run=server -f - 2>&1")
}

// The API server takes all that the chart gives, without a warning: Pod Security restricted warns of what it would
// refuse.
func TestTheServerTakesWhatTheChartGives(t *testing.T) {
	needs(t, false)
	namespace(t, space)
	must(t, "kubectl label namespace "+space+" pod-security.kubernetes.io/warn=restricted")
	definitions(t)
	files, err := filepath.Glob(chart + "/ci/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	plain := ""
	for _, values := range append(files, root+"/deploy/plain.values.yaml", "values.yaml") {
		plain = must(t, "helm template lockd "+chart+" -n "+space+" --values "+values)
		if out, err := dryRun(plain); err != nil || strings.Contains(out, "Warning") {
			t.Errorf("%s: %v\n%s", values, err, out)
		}
	}
	page := yamlOf(t, "A `my-values.yaml` to begin with")
	out, err := try(page, "helm", "template", "lockd", chart, "-n", space, "--values", "-")
	harness.Must(t, err)
	if out, err := dryRun(out); err != nil || strings.Contains(out, "Warning") {
		t.Errorf("the values of docs/deploy.md: %v\n%s", err, out)
	}
	if out, err := dryRun(must(t, "cat "+root+"/deploy/lockd.yaml")); err != nil {
		t.Errorf("deploy/lockd.yaml: %v\n%s", err, out)
	}
	// Mistakes must be seen, or all of this is worth nothing.
	for from, row := range map[string][2]string{
		"\n  replicas: ": {"\n  replcias: ", "unknown field"},
		"runAsNonRoot: true\n        runAsUser: 65532": {
			"runAsNonRoot: false\n        runAsUser: 0",
			"would violate PodSecurity",
		},
		"\n  maxUnavailable: ": {"\n  minAvailable: 1\n  maxUnavailable: ", "minAvailable"},
	} {
		wrong := strings.Replace(plain, from, row[0], 1)
		if out, _ := dryRun(wrong); wrong == plain || !strings.Contains(out, row[1]) {
			t.Errorf("%q instead of %q: %s, want %q", row[0], from, out, row[1])
		}
	}
}

// What cannot work is refused by helm install, with the name of the key, and leaves nothing.
func TestWrongValuesFailAtInstall(t *testing.T) {
	needs(t, false)
	namespace(t, space)
	for set, want := range map[string]string{
		"replicas=2":                        "replicas",
		"config.sesion.ttl=3s":              "sesion",
		"config.session.ttl=soon":           "config/session/ttl",
		"config.store.kind=memory":          "config.store.kind: is memory",
		"config.store.kind=sentinel":        "config.redis.sentinel.addrs: is needed",
		"config.redis.addr=":                "config.redis.addr: is needed",
		"tls.enabled=true":                  "tls.existingSecret: is needed",
		"security.require=true":             "security.require: is true",
		"terminationGracePeriodSeconds=10":  "terminationGracePeriodSeconds: is 10",
		"probes.readiness.type=tcp":         "probes/readiness/type",
		"podDisruptionBudget.maxMissing=1":  "maxMissing",
		"redis.auth.existingSecrets=a":      "existingSecrets",
		"service.headless.enabled=perhaps":  "service/headless/enabled",
		"config.shutdown.timeout=1,tls.x=1": "shutdown/timeout",
	} {
		out, err := try("", "helm", "-n", space, "install", "lockd", chart, "--values", "values.yaml", "--set", set)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, %s; want an error with %q", set, err, out, want)
		}
		if left := must(t, "kubectl -n "+space+" get deployments,services,poddisruptionbudgets -o name"); left != "" {
			t.Fatalf("--set %s left %s", set, left)
		}
	}
}

// What only lockd can find wrong stops an update before any pod is replaced, and the log of the new pod names the key.
func TestAWrongConfigurationReplacesNoPod(t *testing.T) {
	install(t)
	before := pods(t)
	must(t, "helm -n "+space+" upgrade lockd "+chart+" --values values.yaml --set config.session.ttl=20m")
	var found string
	within(t, "the new pod says what is wrong", func() bool {
		for _, p := range pods(t) {
			log, _ := try("", "kubectl", "-n", space, "logs", p.Metadata.Name, "-c", "check-config") // it may not have begun
			if strings.Contains(log, "session.ttl") {
				found = log
			}
		}
		return found != ""
	})
	t.Logf("the new pod says: %s", found)
	ready := map[string]bool{}
	for _, p := range pods(t) {
		ready[p.Metadata.Name] = p.ready()
	}
	for _, p := range before {
		if !ready[p.Metadata.Name] {
			t.Errorf("%s does not serve any more", p.Metadata.Name)
		}
	}
}

// page is docs/deploy.md from a text on.
func page(t *testing.T, from string) string {
	t.Helper()
	text, err := os.ReadFile(root + "/docs/deploy.md")
	harness.Must(t, err)
	_, rest, found := strings.Cut(string(text), from)
	if !found {
		t.Fatalf("docs/deploy.md has no %q any more", from)
	}
	return rest
}

// yamlOf is the first YAML after a text of the page.
func yamlOf(t *testing.T, from string) string {
	t.Helper()
	m := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(page(t, from))
	if m == nil {
		t.Fatalf("there is no YAML after %q", from)
	}
	return m[1]
}

// The commands of the page are run as they stand there. The last one takes a lock.
func TestThePageAboutDeploymentCanBeFollowed(t *testing.T) {
	needs(t, true)
	for _, node := range []string{"node1", "node2"} { // as the page has it
		must(t, "ctr -a "+state+"/"+node+"/containerd.sock -n k8s.io images tag --force docker.io/library/lockd:cluster "+
			"docker.io/library/lockd:try")
	}
	m := regexp.MustCompile("(?s)```console\n(.*?)```").FindStringSubmatch(page(t, "### Try it"))
	if m == nil {
		t.Fatal("there are no commands")
	}
	t.Cleanup(func() { must(t, "kubectl delete namespace lockd --ignore-not-found --wait=true --timeout=3m") })
	var out string
	said := ""
	for line := range strings.SplitSeq(m[1], "\n") {
		command, is := strings.CutPrefix(line, "$ ")
		if !is {
			said += line + "\n"
			continue
		}
		var err error
		if out, err = try("", "sh", "-c", "cd "+root+" && "+command); err != nil {
			t.Fatal(err)
		}
		t.Logf("$ %s\n%s", command, out)
		said = ""
	}
	number := regexp.MustCompile(`\d+`)
	said, out = number.ReplaceAllString(said, "N"), number.ReplaceAllString(out, "N")
	if !strings.Contains(out, strings.TrimSpace(said)) || !strings.Contains(said, "held     true") {
		t.Errorf("the last command says %q, and the page says %q", out, said)
	}
}
