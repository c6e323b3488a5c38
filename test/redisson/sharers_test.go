package redisson

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// sharers are all that share locks, and what may fail.
type sharers struct {
	t        *testing.T
	replicas []*harness.Lockd
	parties  map[string]party
	pids     map[string]int // of the processes of the parties
	links    map[string]*redistest.Proxy
	failed   map[string]int // what did, and how often
}

// newSharers starts two replicas of lockd, a Redis, and a process of each party. All connections can be broken.
func newSharers(t *testing.T) *sharers {
	t.Helper()
	w := &sharers{
		t: t, parties: make(map[string]party), pids: make(map[string]int), links: make(map[string]*redistest.Proxy),
		failed: make(map[string]int),
	}
	bin, err := harness.Build("lockd")
	harness.Must(t, err)
	redis := redistest.Start(t)
	w.links["lockd to Redis"] = redistest.StartProxy(t, redis.Addr)
	w.links["redisson"] = redistest.StartProxy(t, redis.Addr)
	for i := range 2 {
		env := []string{"LOCKD_SESSION_TTL=" + sharedTTL.String(), fmt.Sprint("LOCKD_REPLICA=", i)}
		for _, what := range []string{"", "OPS_", "ADMIN_"} { // ports that are free when it is started again
			env = append(env, "LOCKD_"+what+"LISTEN="+proctest.FreeAddr(t))
		}
		w.replicas = append(w.replicas, harness.StartLockd(t, bin, w.links["lockd to Redis"].Addr, env...))
	}
	w.addSDK("java", harness.JavaDriver(t))
	w.addSDK("python", harness.PythonDriver(t, ""))
	a := startAgent(t)
	w.parties["redisson"] = &redissonParty{a.connect(t, "redis://"+w.links["redisson"].Addr, sharedTTL)}
	w.pids["redisson"] = a.PID()
	return w
}

func (w *sharers) addSDK(language string, command []string) {
	w.t.Helper()
	p := &sdkParty{asked: make(map[int64]chan *said)}
	p.proc = proctest.Command(command[0], nil, command[1:]...)
	harness.Must(w.t, p.proc.Talk(p.hear))
	p.proc.Start(w.t)
	var addrs []string
	for i, r := range w.replicas {
		link := redistest.StartProxy(w.t, r.Addr)
		w.links[fmt.Sprint(language, " to lockd ", i)] = link
		addrs = append(addrs, link.Addr)
	}
	_, err := p.ask(map[string]any{"op": "connect", "client": "c", "name": language, "addrs": addrs})
	harness.Must(w.t, err)
	w.parties[language], w.pids[language] = p, p.proc.PID()
}

// failOnce has something fail, and mends it.
func (w *sharers) failOnce() {
	w.t.Helper()
	//nolint:gosec // no secrets
	var (
		while = rand.N(sharedTTL * 3 / 2)
		links = slices.Sorted(maps.Keys(w.links))
		link  = links[rand.IntN(len(links))]
		who   = slices.Sorted(maps.Keys(w.pids))[rand.IntN(len(w.pids))]
		at    = rand.IntN(len(w.replicas))
	)
	switch rand.IntN(4) { //nolint:gosec // no secret
	case 0:
		w.failed["a replica is killed"]++
		w.replicas[at].Kill()
		time.Sleep(while / 2)
		w.replicas[at].Restart()
	case 1:
		w.failed["a connection breaks"]++
		w.links[link].CutAll()
	case 2:
		w.failed["a connection is silent"]++
		w.links[link].Set(redistest.Stall)
		time.Sleep(while)
		w.links[link].Set(redistest.Pass)
		w.links[link].CutAll() // one that was silent stays silent
	default:
		w.standStill(who, while)
	}
}

// standStill has the process of a party stand still.
func (w *sharers) standStill(who string, d time.Duration) {
	w.t.Helper()
	w.failed[who+" stands still"]++
	harness.Must(w.t, syscall.Kill(w.pids[who], syscall.SIGSTOP))
	time.Sleep(d)
	harness.Must(w.t, syscall.Kill(w.pids[who], syscall.SIGCONT))
}

// sdkParty is an SDK, by its driver.
type sdkParty struct {
	proc *proctest.Process

	mu    sync.Mutex // guards the fields below
	last  int64
	asked map[int64]chan *said
	names int64
	held  sync.Map // names of holds, by worker
}

// said is a line of a driver.
type said struct {
	ID    int64          `json:"id"`
	Event string         `json:"event"`
	OK    map[string]any `json:"ok"`
	Error string         `json:"error"`
	Text  string         `json:"message"`
}

// hear takes an answer.
func (p *sdkParty) hear(line string) {
	s := &said{}
	if err := json.Unmarshal([]byte(line), s); err != nil || s.Event != "" {
		return
	}
	p.mu.Lock()
	c := p.asked[s.ID]
	delete(p.asked, s.ID)
	p.mu.Unlock()
	if c != nil {
		c <- s
	}
}

// ask has the driver do something.
func (p *sdkParty) ask(fields map[string]any) (*said, error) {
	c := make(chan *said, 1)
	p.mu.Lock()
	p.last++
	fields["id"] = p.last
	p.asked[p.last] = c
	p.mu.Unlock()
	line, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	if _, err = p.proc.Stdin.Write(append(line, '\n')); err != nil {
		return nil, err
	}
	select {
	case s := <-c:
		if s.Error != "" {
			return s, errors.New(s.Error)
		}
		return s, nil
	case <-p.proc.Exited:
		return nil, fmt.Errorf("the driver has ended: %s", p.proc.Stderr.String())
	case <-time.After(harness.Patience):
		return nil, errors.New("no answer")
	}
}

func (p *sdkParty) lock(name string, worker int) (fence uint64, ok bool, err error) {
	p.mu.Lock()
	p.names++
	hold := fmt.Sprint("h", p.names)
	p.mu.Unlock()
	s, err := p.ask(map[string]any{
		"op": "lock", "client": "c", "hold": hold, "name": name, "wait": brave.Milliseconds(), "way": worker % 2,
	})
	if err != nil {
		if s != nil && s.Error == "TIMED_OUT" {
			err = nil
		}
		return 0, false, err
	}
	p.held.Store(worker, hold)
	f, _ := s.OK["fence"].(float64)
	return uint64(f), true, nil
}

func (p *sdkParty) holds(_ string, worker int) bool {
	hold, _ := p.held.Load(worker)
	s, err := p.ask(map[string]any{"op": "state", "hold": hold})
	return err == nil && s.OK["held"] == true
}

func (p *sdkParty) unlock(_ string, worker int) {
	hold, _ := p.held.Load(worker)
	_, _ = p.ask(map[string]any{"op": "unlock", "hold": hold}) // it may have been lost
}

// redissonParty is Redisson, by an agent.
type redissonParty struct{ r *redisson }

// ask has a worker do something. It may stand still meanwhile, or have no connection.
func (p *redissonParty) ask(worker int, words ...any) (string, error) {
	c := p.r.agent.tell(p.r.t, p.r.name, fmt.Sprint("worker", worker), words...)
	select {
	case <-c.done:
		return c.text, c.err
	case <-time.After(harness.Patience):
		return "", errors.New("no answer")
	}
}

func (p *redissonParty) lock(name string, worker int) (fence uint64, ok bool, err error) {
	text, err := p.ask(worker, "try", "fenced", name, brave.Milliseconds(), 0)
	if err == nil && text == "true" {
		text, err = p.ask(worker, "token", "fenced", name)
		if err == nil {
			fence, err = strconv.ParseUint(text, 10, 64)
		}
		ok = err == nil
	}
	if err != nil { // it may be held nevertheless
		p.unlock(name, worker)
		err = errors.New("it failed")
	}
	return fence, ok, err
}

func (p *redissonParty) holds(name string, worker int) bool {
	text, err := p.ask(worker, "mine", "fenced", name)
	return err == nil && text == "true"
}

// unlock releases as often as it is held: what was not answered is asked for again by Redisson itself, and then counts
// twice.
func (p *redissonParty) unlock(name string, worker int) {
	for range 10 {
		if _, err := p.ask(worker, "release", "fenced", name); err == nil && !p.holds(name, worker) {
			return
		}
		if text, err := p.ask(worker, "mine", "fenced", name); err == nil && text == "false" {
			return
		}
	}
}
