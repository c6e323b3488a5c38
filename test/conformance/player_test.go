package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// often is how long is waited before a question is repeated.
const often = 10 * time.Millisecond

// goneWithin is how long a lock may still be held that its client knows to be over: a lease ends later in Redis. What
// nobody released lasts longer than that, unless the scenario has made it short.
const goneWithin = 10 * time.Second

// errUnsupported: the driver says that its SDK cannot do something of the scenario.
var errUnsupported = errors.New("the driver does not support it")

// play is a scenario that is played.
type play struct {
	t        testing.TB
	sc       *scenario
	world    *world
	number   string // tells what belongs to this play
	dir      string
	patience time.Duration
	redis    *redistest.Server
	replicas []*harness.Lockd
	links    map[string][]*redistest.Proxy // by client, in the order of the replicas
	silenced map[*redistest.Proxy]bool     // those that ever were
	drivers  map[string]*driver            // by client; those that live
	ids      map[string]int64              // of commands, by key
	names    map[string]bool               // the locks that were used, as lockd knows them

	mu     sync.Mutex // guards the fields below
	told   []*heard
	fences map[string]int64 // by hold
	news   chan struct{}
}

// newPlay prepares a play: its clients are connected when it begins.
func newPlay(t testing.TB, w *world, sc *scenario) *play {
	return &play{
		t: t, sc: sc, world: w, number: w.newPlay(), dir: t.TempDir(), patience: harness.Patience,
		links: make(map[string][]*redistest.Proxy), silenced: make(map[*redistest.Proxy]bool),
		drivers: make(map[string]*driver), ids: make(map[string]int64), names: make(map[string]bool),
		fences: make(map[string]int64), news: make(chan struct{}, 1),
	}
}

// run plays the scenario with the languages given, one for each client in turn. The error says which step is not as it
// should be, and why.
func (p *play) run(languages ...language) error {
	p.build()
	for i, c := range p.sc.clients {
		l := languages[i%len(languages)]
		if p.sc.alone[c] {
			p.drivers[c] = startDriver(p.t, l)
		} else {
			p.drivers[c] = p.world.driver(l)
		}
		p.drivers[c].enter(p)
	}
	err := p.connect()
	for _, s := range p.sc.steps {
		if err != nil {
			break
		}
		if err = p.step(s); err != nil && !errors.Is(err, errUnsupported) {
			err = fmt.Errorf("%s:%d: %w; told besides: %s", p.sc.file, s.line, err, p.unused())
		}
	}
	return errors.Join(err, p.end(err != nil))
}

// connect makes the clients.
func (p *play) connect() error {
	for _, c := range p.sc.clients {
		fields := map[string]any{"op": "connect", "client": p.own(c), "name": c}
		at, reach := int64(0), 1
		if p.sc.moves {
			reach = len(p.links[c])
		}
		for _, w := range p.sc.options[c] {
			switch w.field {
			case "at":
				at, _ = w.value.(int64)
			case "token":
				name := fmt.Sprint(w.value)
				fields["token_file"] = p.write("token-"+name, p.token(name))
			default:
				fields[w.field] = w.value
			}
		}
		var addrs []string
		for i := range reach {
			addrs = append(addrs, p.links[c][(int(at)+i)%len(p.links[c])].Addr)
		}
		fields["addrs"] = addrs
		if _, ok := fields["answer_timeout"]; !ok {
			fields["answer_timeout"] = p.patience.Milliseconds()
		}
		h, err := p.ask(c, &command{key: "connect " + c}, fields)
		if err != nil || h.failed {
			return fmt.Errorf("%s: connect %s: %w", p.sc.at, c, errors.Join(err, failed(h)))
		}
	}
	return nil
}

// step does what a step says, and looks at what is told.
func (p *play) step(s step) error {
	switch s.subject {
	case "proxy":
		return p.proxy(s)
	case "replica":
		return p.replica(s)
	case "driver":
		return p.process(s)
	case "redis":
		return p.store(s)
	case "operator":
		return p.operator(s)
	case "":
		return p.expect(s, s.expect.answer)
	}
	if s.expect != nil && s.expect.until {
		return p.repeat(s)
	}
	if err := p.command(s); err != nil || s.expect != nil && s.expect.later {
		return err
	}
	return p.expect(s, s.key)
}

// repeat asks until the answer is as it should be.
func (p *play) repeat(s step) error {
	for end := time.Now().Add(p.patience); ; time.Sleep(often) {
		if err := p.command(s); err != nil {
			return err
		}
		err := p.expect(s, s.key)
		if err == nil || errors.Is(err, errUnsupported) || time.Now().After(end) {
			return err
		}
	}
}

// command tells the driver of the client what it is to do.
func (p *play) command(s step) error {
	fields := map[string]any{"op": s.verb, "client": p.own(s.subject)}
	if s.spec.op != "" { // a try
		fields["op"], fields["wait"] = s.spec.op, 0
	}
	c := &command{key: s.key}
	for _, w := range s.words {
		switch w.sort {
		case "name":
			fields[w.field] = p.named(s, fmt.Sprint(w.value))
		case "items":
			var items []map[string]any
			all, _ := w.value.([]item)
			for _, i := range all {
				one := map[string]any{"name": p.named(s, i.name)}
				if i.kind != "" {
					one["kind"] = i.kind
				}
				items = append(items, one)
			}
			fields[w.field] = items
		case "new":
			fields[w.field] = p.own(s.key)
			c.holds = []string{s.key}
		case "news":
			c.holds, _ = w.value.([]string)
			var all []string
			for _, name := range c.holds {
				all = append(all, p.own(name))
			}
			fields[w.field] = all
		case "derived":
			fields[w.field] = p.own(fmt.Sprint(w.value))
		case "hold":
			name := fmt.Sprint(w.value)
			fields[w.field] = p.own(name)
			if w.field == "target" {
				fields[w.field] = p.ids[name]
			}
		default:
			fields[w.field] = w.value
		}
	}
	return p.send(s.subject, c, fields)
}

// send has the driver of a client carry a command out.
func (p *play) send(of string, c *command, fields map[string]any) error {
	d := p.drivers[cmp.Or(p.sc.derived[of], of)]
	if d == nil {
		return fmt.Errorf("the process of %s has ended", of)
	}
	c.play = p
	err := d.send(c, fields)
	p.ids[c.key] = c.id
	return err
}

// ask sends, and waits for the answer.
func (p *play) ask(of string, c *command, fields map[string]any) (*heard, error) {
	if err := p.send(of, c, fields); err != nil {
		return nil, err
	}
	return p.await("the answer to "+c.key, func(h *heard) bool { return h.event == "" && h.key == c.key })
}

// named is a name of a lock as lockd knows it. It is looked at when the play is over.
func (p *play) named(s step, name string) string {
	full := p.prefixed(name)
	if name != "" && s.verb != "holds" {
		p.names[full] = true
	}
	return full
}

// prefixed is a name that only this play has: what is before the name, or within its first brace.
func (p *play) prefixed(name string) string {
	switch rest, braced := strings.CutPrefix(name, "{"); {
	case name == "":
		return ""
	case braced:
		return "{" + p.prefix() + rest
	default:
		return p.prefix() + name
	}
}

func (p *play) prefix() string { return "conformance/" + p.number + "/" }

// own is a name of a client, a hold and the like that only this play has.
func (p *play) own(name string) string { return p.number + "." + name }

// end closes what is there, and looks whether something was told that nobody expected, or is left.
func (p *play) end(failedBefore bool) error {
	for l := range p.silenced {
		l.Set(redistest.Pass)
		l.Deliver()
		l.CutAll() // a connection that was silent stays silent
	}
	if failedBefore {
		return nil
	}
	for c, d := range p.drivers {
		_, err := p.ask(c, &command{key: "close " + c}, map[string]any{"op": "close", "client": p.own(c)})
		if err == nil && p.sc.alone[c] {
			err = p.ends(c, d.proc)
		}
		if err != nil {
			return fmt.Errorf("%s: at the end: %w", p.sc.at, err)
		}
	}
	if err := p.unexpected(); err != nil {
		return fmt.Errorf("%s: at the end: %w", p.sc.at, err)
	}
	return p.left()
}

// ends has a driver end: nothing comes on its standard input any more.
func (p *play) ends(of string, proc *proctest.Process) error {
	delete(p.drivers, of)
	if err := proc.Stdin.Close(); err != nil {
		return err
	}
	if code := proc.Code(); code != 0 {
		return fmt.Errorf("the driver of %s ended with %d", of, code)
	}
	return nil
}

// unexpected says which event, of those that tell something once, nobody expected.
func (p *play) unexpected() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, h := range p.told {
		if !h.used && (h.event == "lost" || h.event == "unlocked" || h.event == "leader") {
			return fmt.Errorf("nobody expected %s", h.text)
		}
	}
	return nil
}

// left says whether a lock is still held, or waited for, though all clients are closed. After a fault it may be.
func (p *play) left() error {
	for name := range p.names {
		for end := time.Now().Add(goneWithin); !p.sc.faults; time.Sleep(often) {
			info, err := p.look(name)
			if err != nil {
				return err
			}
			if !info.Held && info.Waiters+info.Queued == 0 {
				break
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s: at the end: %s is left: %+v", p.sc.at, name, info)
			}
		}
	}
	return nil
}

// look is what lockd knows of a name. It knows nothing of one that no lock can have.
func (p *play) look(name string) (client.Info, error) {
	ctx, cancel := context.WithTimeout(p.t.Context(), p.patience)
	defer cancel()
	info, err := p.world.observer.Look(ctx, name)
	if errors.Is(err, client.ErrInvalid) {
		return client.Info{}, nil
	}
	return info, err
}
