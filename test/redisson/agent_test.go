package redisson

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// agent is a process with Redisson that does what it is told.
type agent struct {
	*proctest.Process

	mu      sync.Mutex // guards the fields below, and the order of commands
	last    int
	pending map[string]*call
}

// call is a command that the agent was given.
type call struct {
	t    *testing.T
	what string
	done chan struct{} // closed when the fields below are there
	text string        // the answer
	err  error
}

// answer waits for the answer.
func (c *call) answer() (string, error) {
	c.t.Helper()
	harness.Soon(c.t, "an answer to "+c.what, c.done)
	return c.text, c.err
}

// must is answer where no error is expected.
func (c *call) must() string {
	c.t.Helper()
	text, err := c.answer()
	if err != nil {
		c.t.Fatalf("%s: %v", c.what, err)
	}
	return text
}

// answered says whether the answer is there.
func (c *call) answered() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// sharedAgent is the agent of all tests that do not kill it.
var sharedAgent = sync.OnceValues(launchAgent)

// startAgent starts an agent that may be killed.
func startAgent(t *testing.T) *agent {
	t.Helper()
	a, err := launchAgent()
	harness.Must(t, err)
	t.Cleanup(a.Kill)
	return a
}

func launchAgent() (*agent, error) {
	target, err := buildAgent()
	if err != nil {
		return nil, err
	}
	a := &agent{pending: make(map[string]*call)}
	// Tests are short: the quickest start counts.
	a.Process = proctest.Command("java", nil,
		"-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx256m", "-XX:-UsePerfData", "-cp",
		filepath.Join(target, "classes")+":"+filepath.Join(target, "lib", "*"), "io.lockd.redisson.Agent")
	return a, errors.Join(a.Talk(a.hear), a.Launch())
}

// hear takes an answer.
func (a *agent) hear(line string) {
	id, rest, _ := strings.Cut(line, " ")
	outcome, text, _ := strings.Cut(rest, " ")
	a.mu.Lock()
	c := a.pending[id]
	delete(a.pending, id)
	a.mu.Unlock()
	if c == nil {
		return
	}
	c.text = text
	if outcome != "ok" {
		c.err = errors.New(text)
	}
	close(c.done)
}

// tell gives a command.
func (a *agent) tell(t *testing.T, client, worker string, words ...any) *call {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	id := strconv.Itoa(a.last)
	what := strings.TrimSuffix(fmt.Sprintln(append([]any{client, worker}, words...)...), "\n")
	c := &call{t: t, what: what, done: make(chan struct{})}
	a.pending[id] = c
	if _, err := fmt.Fprintf(a.Stdin, "%s %s\n", id, what); err != nil {
		t.Fatalf("%s: %v; %s", what, err, a.Stderr.String())
	}
	return c
}

// redisson is a Redisson client inside of an agent.
type redisson struct {
	t       *testing.T
	agent   *agent
	name    string
	workers string // what the names of workers begin with
}

// connect makes a Redisson client for the time of the test. Agent.java says how servers are given.
func (a *agent) connect(t *testing.T, at string, ttl time.Duration) *redisson {
	t.Helper()
	r := &redisson{t: t, agent: a, name: strings.ReplaceAll(t.Name(), " ", "_")}
	a.tell(t, r.name, "main", "connect", at, ttl.Milliseconds()).must()
	t.Cleanup(func() {
		select {
		case <-a.Exited:
		default:
			a.tell(t, r.name, "end", "disconnect").must()
		}
	})
	return r
}

// worker is a thread of a Redisson client, and as such an owner of locks.
type worker struct {
	r    *redisson
	name string
}

func (r *redisson) worker(name any) *worker { return &worker{r: r, name: r.workers + fmt.Sprint(name)} }

// tell gives a command to the thread; it is done after those given before.
func (w *worker) tell(words ...any) *call {
	w.r.t.Helper()
	return w.r.agent.tell(w.r.t, w.r.name, w.name, words...)
}

// ask is tell and the answer.
func (w *worker) ask(words ...any) string {
	w.r.t.Helper()
	return w.tell(words...).must()
}

// want asks and compares.
func (w *worker) want(want any, words ...any) {
	w.r.t.Helper()
	if got := w.ask(words...); got != fmt.Sprint(want) {
		w.r.t.Errorf("Redisson: %v: got %s, want %v", words, got, want)
	}
}

// waits waits until the worker does so: until it is Redisson that waits to be told of a release.
func (w *worker) waits() {
	w.r.t.Helper()
	harness.Until(w.r.t, w.name+" waits", func() bool { return w.r.worker("main").ask("waits", w.name) == "true" })
}

// number asks for a number.
func (w *worker) number(words ...any) int {
	w.r.t.Helper()
	n, err := strconv.Atoi(w.ask(words...))
	if err != nil {
		w.r.t.Fatalf("Redisson: %v: %v", words, err)
	}
	return n
}

// buildAgent runs Maven, unless what it made is of the same sources. It returns where that is.
var buildAgent = sync.OnceValues(func() (target string, err error) {
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return "", fmt.Errorf("%s is not in PATH: install a JDK of 17 or newer and Maven, or run make test", program)
		}
	}
	const project = "test/redisson/java"
	dir, err := harness.BuildMaven("redisson", []string{project}, project, "compile")
	return filepath.Join(dir, project, "target"), err
})
