package security

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"
)

// paper is what an auditor writes to.
type paper struct {
	mu     sync.Mutex // guards the fields below
	text   bytes.Buffer
	broken error
	gate   chan struct{} // not nil: each write waits for it
}

func (p *paper) Write(b []byte) (int, error) {
	if p.gate != nil {
		<-p.gate
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.broken != nil {
		return 0, p.broken
	}
	return p.text.Write(b)
}

func (p *paper) Close() error { return nil }

func (p *paper) breaks(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.broken = err
}

// events are what was written.
func (p *paper) events(t *testing.T) []Event {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	return eventsOf(t, p.text.String())
}

func eventsOf(t *testing.T, text string) (all []Event) {
	t.Helper()
	for line := range strings.Lines(text) {
		var e Event
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, e)
	}
	return all
}

func newTestAuditor(p *paper) *auditor {
	return newAuditor(p, zap.NewNop(), newMetrics(prometheus.NewRegistry(), func() time.Duration { return 0 }))
}

func TestAuditIsBoundedForEachClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{}
		a := newTestAuditor(p)
		defer a.close()
		denied := func(n int, e Event) {
			for range n {
				a.add(e)
			}
			synctest.Wait()
		}
		noisy := Event{Identity: Identity{Client: newClient("noisy", rights{}), By: "token"}}
		denied(burstLines+30, noisy)
		denied(1, Event{Identity: Identity{Client: newClient("quiet", rights{})}})
		denied(burstLines+1, Event{Peer: "192.0.2.1:1"}) // an address is whoever has it, from whatever port
		denied(1, Event{Peer: "192.0.2.1:2"})
		denied(1, Event{Peer: "192.0.2.2:1"})
		if got := len(p.events(t)); got != 2*burstLines+2 {
			t.Errorf("%d lines were written", got)
		}
		time.Sleep(time.Second)
		denied(burstLines, noisy)
		all := p.events(t)[2*burstLines+2:]
		if len(all) != rateLines || all[0].Missed != 30 || all[1].Missed != 0 || all[0].Client != "noisy" ||
			all[0].By != "token" || all[0].Time.IsZero() {
			t.Errorf("after a second: %d lines, first %+v", len(all), all[0])
		}
		if got := valueOf(a.m.dropped.WithLabelValues(causeRate)); got != 30+2+30 {
			t.Errorf("%v are counted", got)
		}
	})
}

func TestAuditForgetsAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestAuditor(&paper{})
		defer a.close()
		for i := range maxRates + 10 {
			a.rateLocked(string(rune(i+1)), false, time.Now())
		}
		a.rateLocked("client x", true, time.Now())
		if got := len(a.rates); got != maxRates+2 {
			t.Errorf("%d are remembered", got)
		}
		time.Sleep(2 * time.Minute)
		a.rateLocked("new", false, time.Now())
		if got := len(a.rates); got != 1 {
			t.Errorf("%d are remembered after they were quiet", got)
		}
	})
}

// TestAuditBlocksNobody has a writer that waits, and then one that fails.
func TestAuditBlocksNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{gate: make(chan struct{})}
		a := newTestAuditor(p)
		const clients = 100
		who := func(i int) Event { return Event{Client: string(rune('A' + i%clients))} }
		for i := range queueLines + 1 + clients {
			if a.add(who(i)); i == 0 {
				synctest.Wait() // one is being written, and the queue is empty
			}
		}
		if got := valueOf(a.m.dropped.WithLabelValues(causeQueue)); got != clients {
			t.Errorf("%v are counted of the queue", got)
		}
		close(p.gate)
		synctest.Wait()
		p.breaks(syscall.ENOSPC)
		a.add(who(1))
		synctest.Wait()
		p.breaks(nil)
		time.Sleep(time.Second)
		a.add(who(1))
		a.close()
		all := p.events(t)
		if last := all[len(all)-1]; len(all) != queueLines+2 || last.Missed != 2 {
			t.Errorf("%d lines, last %+v", len(all), last)
		}
		if got := valueOf(a.m.dropped.WithLabelValues(causeWrite)); got != 1 {
			t.Errorf("%v are counted of the writes", got)
		}
		if got := valueOf(a.m.lines); got != float64(len(all)) {
			t.Errorf("%v lines are counted", got)
		}
	})
}

func TestAuditEndsThoughTheDiskHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &paper{gate: make(chan struct{})}
		a := newTestAuditor(p)
		a.add(Event{})
		a.close()
		close(p.gate)
	})
}

func TestAuditDoesNothingToATerminal(t *testing.T) {
	hostile := "a\nb\r\x1b[31m\x7f\u009b\u2028\u202e\u200b\U000e0001\xff<&>" + strings.Repeat("x", 5000)
	e := Event{What: EventDenied, Name: hostile, Detail: hostile, Peer: hostile, Identity: Identity{By: hostile}}
	p := &paper{}
	a := newTestAuditor(p)
	a.add(e)
	a.close()
	line := strings.TrimSuffix(p.text.String(), "\n")
	if strings.ContainsFunc(line, func(r rune) bool { return unicode.IsControl(r) || !unicode.IsPrint(r) }) {
		t.Errorf("got %q", line)
	}
	got := p.events(t)[0]
	if got.Name != strings.ToValidUTF8(hostile, "\ufffd")[:len(got.Name)] || len(got.Name) > textBytes+2 {
		t.Errorf("got %q", got.Name)
	}
}

func TestAuditFileIsOpenedAgain(t *testing.T) {
	t.Parallel()
	r := &rig{path: filepath.Join(t.TempDir(), "clients.yaml")}
	write(t, r.path, twoTeams)
	audit := filepath.Join(t.TempDir(), "audit.log")
	r.open(t, Config{File: r.path, Audit: audit})
	is := func(path, what string) func() bool {
		return func() bool {
			text, err := os.ReadFile(path)
			return err == nil && strings.Contains(string(text), what)
		}
	}
	applied := `"event":"file_applied","detail":"` + digestOf([]byte(twoTeams)) + ` of 2 clients"`
	until(t, "the file is said to be applied", is(audit, applied))
	info, err := os.Stat(audit)
	must(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v", info.Mode())
	}
	must(t, os.Rename(audit, audit+".1"))
	until(t, "a new file is written", func() bool {
		r.Audit(Event{What: EventDrained, Client: "a"})
		return is(audit, EventDrained)()
	})
	write(t, r.path, "clients: [{name: a}]")
	until(t, "the file is said to be refused", is(audit, `"event":"file_refused","detail":"`))
}

// TestAuditGoesOnAfterATornLine has a disk that is full in the middle of a line.
func TestAuditGoesOnAfterATornLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f, err := openAudit(path)
	must(t, err)
	file := f.(*auditFile)
	_, err = file.file.WriteString(`{"event":"de`)
	must(t, err)
	file.torn = true
	for range 2 {
		_, err = f.Write([]byte("{}\n"))
		must(t, err)
	}
	must(t, f.Close())
	text, err := os.ReadFile(path)
	if string(text) != "{\"event\":\"de\n{}\n{}\n" || err != nil {
		t.Errorf("got %q, %v", text, err)
	}
	if _, err := f.Write(nil); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v", err)
	}
}

// TestAuditWritesNothingToAFileThatIsGone has a file whose place is taken: no line counts as written.
func TestAuditWritesNothingToAFileThatIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	f, err := openAudit(path)
	must(t, err)
	must(t, os.Remove(path))
	must(t, os.Mkdir(path, 0o700))
	for range 3 {
		if _, err := f.Write([]byte("{}\n")); err == nil {
			t.Error("a line is lost, and nobody knows")
		}
	}
	must(t, os.Remove(path))
	_, err = f.Write([]byte("{}\n"))
	must(t, err)
	must(t, f.Close())
}
