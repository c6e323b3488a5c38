package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/proctest"
)

// language is an SDK, and how to run its driver.
type language struct {
	name    string
	command []string
	// alter changes what the driver says, so that it is wrong. nil = nothing.
	alter func(line map[string]any) []map[string]any
}

// driver is a program that speaks for some clients of some plays. What it is told has the number of the play before
// each name, as in "12.h1".
type driver struct {
	proc   *proctest.Process
	alter  func(line map[string]any) []map[string]any
	mu     sync.Mutex // guards the fields below
	lastID int64
	asked  map[int64]*command
	plays  map[string]*play // by number
	over   error            // why nothing more can come
}

// command is what a driver was told.
type command struct {
	play     *play
	id       int64
	key      string
	holds    []string      // whose fences the answer tells
	done     chan<- *heard // where the answer goes in place of the play, which has room for it; nil = to the play
	at       time.Time
	answered bool
}

// heard is an answer or an event.
type heard struct {
	at     time.Time
	event  string // "" if it is an answer
	key    string // of the command that it answers
	sentAt time.Time
	failed bool
	text   string // for people
	fields map[string]any
	used   bool
}

// startDriver runs a driver until the test ends.
func startDriver(t testing.TB, l language) *driver {
	t.Helper()
	d := &driver{alter: l.alter, asked: make(map[int64]*command), plays: make(map[string]*play)}
	d.proc = proctest.Command(l.command[0], nil, l.command[1:]...)
	if err := d.proc.Talk(d.hear); err != nil {
		t.Fatal(err)
	}
	d.proc.Start(t)
	ended := d.proc.Exited
	go func() {
		<-ended
		d.fail(fmt.Errorf("the driver has ended: %s", d.proc.Stderr.String()))
	}()
	return d
}

// enter has a driver take part in a play.
func (d *driver) enter(p *play) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.plays[p.number] = p
}

// send tells the driver a command.
func (d *driver) send(c *command, fields map[string]any) error {
	d.mu.Lock()
	d.lastID++
	c.id, c.at = d.lastID, time.Now()
	d.asked[c.id] = c
	fields["id"] = c.id
	d.mu.Unlock()
	line, err := json.Marshal(fields)
	if err != nil {
		return err
	}
	if _, err = d.proc.Stdin.Write(append(line, '\n')); err != nil { // lines of several plays do not mix
		return fmt.Errorf("%w: %s", err, d.proc.Stderr.String())
	}
	return nil
}

// fail says that nothing that comes from the driver can be trusted any more. The first reason counts.
func (d *driver) fail(err error) {
	d.mu.Lock()
	if d.over == nil {
		d.over = err
	}
	plays := maps.Clone(d.plays)
	d.mu.Unlock()
	for _, p := range plays {
		p.notify()
	}
}

// trouble is why nothing more can come, nil if all is well.
func (d *driver) trouble() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

// hear takes a line of the driver.
func (d *driver) hear(text string) {
	line := make(map[string]any)
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&line); err != nil {
		d.fail(fmt.Errorf("the driver said %q: %w", text, err))
		return
	}
	if d.alter == nil {
		d.take(line, text)
		return
	}
	for _, line := range d.alter(line) {
		d.take(line, fmt.Sprint(line))
	}
}

// take passes a line on to the play that it is for.
func (d *driver) take(line map[string]any, text string) {
	h := &heard{at: time.Now(), text: text, fields: line}
	h.event, _ = line["event"].(string)
	var err error
	if _, known := events[h.event]; h.event != "" && !known {
		err = errors.New("there is no such event")
	} else if id, ok := numberOf(line["id"]); ok {
		err = d.takeAnswer(h, id)
	} else {
		err = d.takeEvent(h)
	}
	if err != nil {
		d.fail(fmt.Errorf("the driver said %s: %w", text, err))
	}
}

// takeAnswer takes what has the id of a command: its answer, or a queued before it.
func (d *driver) takeAnswer(h *heard, id int64) error {
	d.mu.Lock()
	c := d.asked[id]
	if c == nil || c.answered {
		d.mu.Unlock()
		return errors.New("no command with this id waits for an answer")
	}
	c.answered = h.event == ""
	d.mu.Unlock()
	h.key, h.sentAt = c.key, c.at
	if h.event == "queued" {
		if c.done != nil {
			return nil
		}
		h.fields["hold"] = c.key
	} else if err := h.open(); err != nil {
		return err
	}
	if c.done != nil {
		c.done <- h
		return nil
	}
	c.play.hear(h, c.holds)
	return nil
}

// open has the fields of an answer.
func (h *heard) open() error {
	line := h.fields
	h.fields, _ = line["ok"].(map[string]any)
	if h.fields != nil {
		return nil
	}
	if h.fields, _ = line["detail"].(map[string]any); h.fields == nil {
		h.fields = make(map[string]any)
	}
	if h.failed = line["error"] != nil; !h.failed {
		return errors.New("it has neither ok nor error")
	}
	h.fields["error"] = line["error"]
	return nil
}

// takeEvent takes what the driver tells by itself.
func (d *driver) takeEvent(h *heard) error {
	about, _, _ := strings.Cut(events[h.event][0], " ")
	full, _ := h.fields[about].(string)
	number, name, _ := strings.Cut(full, ".")
	d.mu.Lock()
	p := d.plays[number]
	d.mu.Unlock()
	if p == nil {
		return fmt.Errorf("nobody knows the %s %q", about, full)
	}
	h.fields[about] = name
	p.hear(h, nil)
	return nil
}
