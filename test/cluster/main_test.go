package cluster

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

const (
	root  = "../.."
	chart = root + "/deploy/helm/lockd"
	// space is the namespace of what the tests install. Pods that are not restricted are refused in it.
	space = "locks"
	// patience bounds what should happen soon.
	patience = 2 * time.Minute
)

// state is where the running cluster keeps its files, which test/cluster/cluster exec tells; empty = there is none.
var state = os.Getenv("LOCKD_CLUSTER")

func TestMain(m *testing.M) {
	flag.Parse()
	if state == "" {
		os.Exit(m.Run()) // all are skipped
	}
	if err := images(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// images gives the nodes what the tests run: lockd as it was built, the clients, and this machine's Redis.
func images() error {
	if !nodes() {
		return nil
	}
	lockd := filepath.Join(root, "bin", "lockd-cluster.oci.tar")
	if _, err := os.Stat(lockd); err != nil {
		return errors.New("there is no image; make test-cluster builds it")
	}
	redis, err := exec.LookPath("redis-server")
	if err != nil {
		return err
	}
	clients := filepath.Join(state, "clients")
	for _, args := range [][]string{
		{"env", "CGO_ENABLED=0", "go", "test", "-c", "-o", clients, root + "/test/faultrun"},
		{
			"go", "run", "./image", "-o", clients + ".oci.tar", "-name", "localhost/clients:1", "-entrypoint", "/clients",
			clients + "=/clients",
		},
		{
			"go", "run", "./image", "-o", clients + "-redis.oci.tar", "-name", "docker.io/library/redis:7.4", "-libraries",
			"-user", "999:999",
			redis + "=/usr/bin/redis-server",
		},
		{"./cluster", "image", lockd, clients + ".oci.tar", clients + "-redis.oci.tar"},
	} {
		if _, err := try("", args...); err != nil {
			return err
		}
	}
	return nil
}

// nodes says whether pods can run: an API server alone is enough for some tests.
func nodes() bool {
	_, err := os.Stat(filepath.Join(state, "node1"))
	return err == nil
}

// needs skips a test where there is no cluster.
func needs(t *testing.T, pods bool) {
	t.Helper()
	if state == "" {
		t.Skip("needs a cluster: make test-cluster")
	}
	if pods && !nodes() {
		t.Skip("this cluster has no nodes")
	}
}

// try runs a program, and returns what it wrote.
func try(stdin string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	var out, said bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(stdin), &out, &said
	err := cmd.Run()
	if err != nil {
		err = fmt.Errorf("%q: %w\n%s%s", args, err, out.String(), said.String())
	}
	return strings.TrimSpace(out.String()), err
}

// must is try where nothing can go wrong. The words of a command are separated by spaces, more can follow.
func must(t *testing.T, command string, more ...string) string {
	t.Helper()
	out, err := try("", append(strings.Fields(command), more...)...)
	harness.Must(t, err)
	return out
}

// within waits for something that kubectl cannot wait for.
func within(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s\n%s", patience, what,
				must(t, "kubectl -n "+space+" get pods -o wide")+"\n"+must(t, "kubectl -n "+space+" events"))
		}
	}
}

// pod is one of lockd.
type pod struct {
	Metadata struct {
		Name              string
		DeletionTimestamp string
	}
	Spec   struct{ NodeName string }
	Status struct {
		ContainerStatuses []struct {
			Ready        bool
			RestartCount int
		}
	}
}

// ready says whether it serves, and is to stay.
func (p pod) ready() bool {
	c := p.Status.ContainerStatuses
	return len(c) > 0 && c[0].Ready && p.Metadata.DeletionTimestamp == ""
}

// pods are those of lockd, also those that are ending.
func pods(t *testing.T) []pod {
	t.Helper()
	var list struct{ Items []pod }
	out := must(t, "kubectl -n "+space+" get pods -l app.kubernetes.io/name=lockd -o json")
	harness.Must(t, json.Unmarshal([]byte(out), &list))
	return list.Items
}

// settled waits until there are so many pods, all of them ready.
func settled(t *testing.T, n int) {
	t.Helper()
	within(t, fmt.Sprint(n, " pods of lockd are ready, and no others are there"), func() bool {
		all := pods(t)
		for _, p := range all {
			if !p.ready() {
				return false
			}
		}
		return len(all) == n
	})
}

// namespace makes one in which pods must be restricted, for the time of a test.
func namespace(t *testing.T, name string) {
	t.Helper()
	must(t, "kubectl create namespace "+name)
	t.Cleanup(func() { must(t, "kubectl delete namespace --wait=true --timeout=3m "+name) })
	must(t, "kubectl label namespace "+name+" pod-security.kubernetes.io/enforce=restricted")
}
