// driver plays the conformance scenarios with the Go SDK. README.md of package conformance says what it reads and
// writes.
//
// A command runs in a goroutine of its own, so that the next one is read meanwhile.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"sync"

	"github.com/lockd-io/lockd/client"
)

func main() {
	d := &driver{
		out:     json.NewEncoder(os.Stdout),
		clients: make(map[string]*client.Client),
		holds:   make(map[string]*client.Lock),
		ofTTL:   make(map[string]string),
		ends:    make(map[string]context.CancelFunc),
	}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var c command
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			fmt.Fprintf(os.Stderr, "driver: %v in %s\n", err, lines.Text())
			os.Exit(2)
		}
		d.begin(&c)
	}
	d.close()
}

// command is a line that was read. Times are in ms.
type command struct {
	ID     int64  `json:"id"`
	Op     string `json:"op"`
	Client string `json:"client"`
	Hold   string `json:"hold"`
	Name   string `json:"name"`
	Lease  *int64 `json:"lease"`

	// connect
	Addrs               []string `json:"addrs"`
	SessionTTL          *int64   `json:"session_ttl"`
	AnswerTimeout       *int64   `json:"answer_timeout"`
	FailOnDeadlock      bool     `json:"fail_on_deadlock"`
	ReleaseOnDisconnect bool     `json:"release_on_disconnect"`
	TokenFile           string   `json:"token_file"`
	Actor               string   `json:"actor"` // of lock, too
	Other               string   `json:"other"` // of with_ttl: the client that it makes

	// lock, lock_all
	Kind       string   `json:"kind"`
	Wait       *int64   `json:"wait"`
	Holder     string   `json:"holder"`
	Permits    uint32   `json:"permits"`
	Limit      uint32   `json:"limit"`
	Annotation string   `json:"annotation"`
	MaxHold    *int64   `json:"max_hold"`
	Holds      []string `json:"holds"`
	Items      []item   `json:"items"`

	Target int64  `json:"target"` // of cancel: an id
	Prefix string `json:"prefix"`
	Watch  string `json:"watch"`

	// campaign, resign, observe
	Election  string `json:"election"`
	Candidate string `json:"candidate"`
	Term      string `json:"term"`
	Observe   string `json:"observe"`
}

// item is one of the locks of lock_all.
type item struct {
	Name    string `json:"name"`
	Kind    string `json:"kind"`
	Permits uint32 `json:"permits"`
	Limit   uint32 `json:"limit"`
}

// driver has what the commands made, by the names that they gave it.
type driver struct {
	mu      sync.Mutex // guards the fields below
	out     *json.Encoder
	clients map[string]*client.Client
	holds   map[string]*client.Lock
	ofTTL   map[string]string             // names of clients of with_ttl, by the other client and their TTL
	ends    map[string]context.CancelFunc // of commands, by their id as text, and of watches
}

// say writes a line.
func (d *driver) say(line map[string]any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	_ = d.out.Encode(line) // nobody reads any more
}

// begin carries a command out, and returns before it is done. It can be cancelled at once.
func (d *driver) begin(c *command) {
	ctx, cancel := context.WithCancel(context.Background())
	id := fmt.Sprint(c.ID)
	d.mu.Lock()
	d.ends[id] = cancel
	d.mu.Unlock()
	go func() {
		defer d.end(id)
		do, ok := ops[c.Op]
		if !ok {
			do = (*driver).unsupported
		}
		result, err := do(d, ctx, c)
		if err != nil {
			d.say(failure(c.ID, err))
			return
		}
		d.say(map[string]any{"id": c.ID, "ok": result})
		d.tellOfLoss(c)
	}()
}

// end ends a command or a watch, if it is there.
func (d *driver) end(what string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if cancel := d.ends[what]; cancel != nil {
		cancel()
		delete(d.ends, what)
	}
}

// close releases all that is held.
func (d *driver) close() {
	d.mu.Lock()
	clients := maps.Clone(d.clients)
	d.mu.Unlock()
	var all sync.WaitGroup
	for _, c := range clients {
		all.Go(func() { _ = c.Close() }) // lockd may be gone
	}
	all.Wait()
}
