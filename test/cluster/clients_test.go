package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

// lockd is installed in the namespace, with a Redis, for the time of a test.
func install(t *testing.T) {
	t.Helper()
	needs(t, true)
	namespace(t, space)
	must(t, "kubectl -n "+space+" apply -f redis.yaml")
	must(t, "kubectl -n "+space+" rollout status deployment/redis --timeout=2m")
	must(t, "helm -n "+space+" install lockd "+chart+" --values values.yaml --wait --timeout 3m")
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(must(t, "kubectl -n "+space+" get pods -o wide"))
			t.Log(must(t, "kubectl -n "+space+" logs -l app.kubernetes.io/name=lockd -c lockd --prefix --tail=50"))
		}
		must(t, "helm -n "+space+" uninstall lockd --wait --timeout 3m")
	})
	settled(t, 3)
}

// status is what the clients say of themselves.
type status struct {
	Calls, Lost, Moves, Cuts, Ends int
	Longest                        string
	Slowest                        string `json:"slowest_move"`
	Errors                         []string
}

// underLoad does something while clients use locks. They must not notice it.
func underLoad(t *testing.T, flags []string, do func(t *testing.T)) {
	t.Helper()
	text, err := os.ReadFile("clients.yaml")
	harness.Must(t, err)
	args := "\n"
	for _, f := range flags {
		args += "        - " + f + "\n"
	}
	if _, err := try(strings.Replace(string(text), "        # ARGS\n", args[1:], 1), "kubectl", "-n", space, "apply", "-f",
		"-"); err != nil {
		t.Fatal(err)
	}
	defer must(t, "kubectl -n "+space+" delete pod clients --ignore-not-found --grace-period=1")
	must(t, "kubectl -n "+space+" wait --for=condition=Ready pod/clients --timeout=2m")
	begun := time.Now()
	do(t)
	time.Sleep(5 * time.Second) // for what comes late
	look(t, time.Since(begun))
	if _, err := try("{}", "kubectl", "create", "--raw", "/api/v1/namespaces/"+space+"/pods/clients:8080/proxy/end", "-f",
		"-"); err != nil {
		t.Error(err)
	}
	phase := ""
	within(t, "the clients end", func() bool {
		phase = must(t, "kubectl -n "+space+" get pod clients -o jsonpath={.status.phase}")
		return phase == "Succeeded" || phase == "Failed"
	})
	log := must(t, "kubectl -n "+space+" logs clients")
	t.Logf("what the clients say:\n%s", log)
	if phase != "Succeeded" {
		t.Error("they noticed something")
	}
}

// look asks the clients how it goes.
func look(t *testing.T, after time.Duration) {
	t.Helper()
	var s status
	out := must(t, "kubectl get --raw /api/v1/namespaces/"+space+"/pods/clients:8080/proxy/status")
	harness.Must(t, json.Unmarshal([]byte(out), &s))
	t.Logf("after %v: %+v", after.Round(time.Second), s)
	if s.Calls == 0 || s.Lost > 0 || s.Ends > 0 || len(s.Errors) > 0 {
		t.Errorf("the clients noticed something: %s", out)
	}
}

// Pods are replaced twice, one after the other.
func TestARollingUpdateIsNotNoticed(t *testing.T) {
	install(t)
	t.Log(must(t, "helm -n "+space+" test lockd --logs --timeout 1m"))
	underLoad(t, nil, func(t *testing.T) {
		for range 2 {
			begun := time.Now()
			must(t, "kubectl -n "+space+" rollout restart deployment/lockd")
			must(t, "kubectl -n "+space+" rollout status deployment/lockd --timeout=5m")
			settled(t, 3)
			t.Logf("all pods were replaced in %v", time.Since(begun).Round(time.Second))
		}
	})
}

// The process of a pod is killed, and that of another one.
func TestAKilledPodCostsNobodyALock(t *testing.T) {
	install(t)
	underLoad(t, []string{"-cuts"}, func(t *testing.T) {
		for i := range 2 {
			p := pods(t)[i]
			pid, err := strconv.Atoi(must(t, "./cluster pid "+p.Spec.NodeName+" "+space+" "+p.Metadata.Name))
			harness.Must(t, err)
			harness.Must(t, syscall.Kill(pid, syscall.SIGKILL))
			within(t, "the pod runs again", func() bool {
				now := pods(t)[i]
				return now.ready() && now.Status.ContainerStatuses[0].RestartCount == 1
			})
		}
		settled(t, 3)
	})
}

// A node is emptied. Never are there fewer pods than the budget says, and a second eviction has to wait.
func TestADrainedNodeIsNotNoticed(t *testing.T) {
	install(t)
	underLoad(t, nil, func(t *testing.T) {
		evict := func(name string) error {
			_, err := try(fmt.Sprintf(`{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": %q}}`, name),
				"kubectl", "create", "--raw", "/api/v1/namespaces/"+space+"/pods/"+name+"/eviction", "-f", "-")
			return err
		}
		all := pods(t)
		harness.Must(t, evict(all[0].Metadata.Name))
		if err := evict(all[1].Metadata.Name); err == nil || !strings.Contains(err.Error(), "disruption budget") {
			t.Errorf("a second eviction: %v, want it refused for the budget", err)
		}
		settled(t, 3)

		t.Cleanup(func() { must(t, "kubectl uncordon node2") })
		done, least := make(chan error, 1), 3
		go func() {
			_, err := try("", strings.Fields("kubectl drain node2 --ignore-daemonsets --delete-emptydir-data --timeout=5m")...)
			done <- err
		}()
		for drained := false; !drained; time.Sleep(100 * time.Millisecond) {
			ready := 0
			for _, p := range pods(t) {
				if p.ready() {
					ready++
				}
			}
			least = min(least, ready)
			select {
			case err := <-done:
				if drained = true; err != nil {
					t.Fatal(err)
				}
			default:
			}
		}
		t.Logf("at least %d pods were ready", least)
		if least < 2 {
			t.Error("the budget was not kept")
		}
		settled(t, 3)
		for _, p := range pods(t) {
			if p.Spec.NodeName != "node1" {
				t.Errorf("%s is on %s", p.Metadata.Name, p.Spec.NodeName)
			}
		}
	})
}

// There are fewer replicas, and more.
func TestScalingIsNotNoticed(t *testing.T) {
	install(t)
	underLoad(t, nil, func(t *testing.T) {
		for _, n := range []int{1, 5} {
			begun := time.Now()
			must(t, fmt.Sprintf("kubectl -n %s scale deployment/lockd --replicas=%d", space, n))
			settled(t, n)
			t.Logf("%d replicas after %v", n, time.Since(begun).Round(time.Second))
			look(t, time.Since(begun))
		}
	})
}
