package security

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/observe"
)

// Event is one line of the audit. Texts of clients are escaped when the line is written.
type Event struct {
	Time     time.Time `json:"time"`
	What     string    `json:"event"` // one of the constants below
	Client   string    `json:"client,omitempty"`
	By       string    `json:"credential,omitempty"`
	Peer     string    `json:"peer,omitempty"`
	Verb     string    `json:"verb,omitempty"` // the message or the method
	Name     string    `json:"name,omitempty"`
	Fence    uint64    `json:"fence,omitempty"`
	Result   string    `json:"result,omitempty"`  // OK, or the reason of an error
	Request  uint64    `json:"request,omitempty"` // its id, of a session's
	Session  string    `json:"session,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	Missed   uint64    `json:"missed,omitempty"` // how many lines before this one were not written
	Identity Identity  `json:"-"`                // fills Client and By if they are empty
}

// The kinds of events.
const (
	EventDenied          = "denied"
	EventUnauthenticated = "unauthenticated"
	EventForced          = "forced"
	EventLimitChanged    = "limit_changed"
	EventDrained         = "drained"
	EventSessionEnded    = "session_ended"
	EventRevoked         = "revoked"
	EventFileApplied     = "file_applied"
	EventFileRefused     = "file_refused"
)

// The bounds of the audit.
const (
	queueLines = 4096
	textBytes  = 1024 // of each text
	moreBytes  = 4096 // of the detail
	burstLines = 50   // of one client at once
	rateLines  = 20   // of one client in a second
	maxRates   = 10_000
	lastWait   = 5 * time.Second // at the end
)

// Audit has a line written. It never blocks: a line for which there is no room is counted and dropped.
func (g *Guard) Audit(e Event) {
	if g != nil && g.audit != nil {
		g.audit.add(e)
	}
}

// auditor has lines written by one goroutine.
type auditor struct {
	to    io.WriteCloser
	log   *zap.Logger
	m     *metrics
	queue chan *Event
	stop  chan struct{}
	ended chan struct{}
	once  sync.Once

	mu    sync.Mutex // guards the fields below
	rates map[string]*rate
	swept time.Time // when quiet clients were last forgotten
}

// rate bounds the lines of one client, or of an address whose client is not known.
type rate struct {
	left   float64 // lines that may be written
	at     time.Time
	missed uint64 // lines that were not written since the last one
}

func newAuditor(to io.WriteCloser, log *zap.Logger, m *metrics) *auditor {
	a := &auditor{
		to: to, log: log, m: m, queue: make(chan *Event, queueLines), stop: make(chan struct{}),
		ended: make(chan struct{}), rates: map[string]*rate{},
	}
	go a.run()
	return a
}

// add puts a line into the queue, if there is room.
func (a *auditor) add(e Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	if e.Client == "" {
		e.Client = e.Identity.Client.Name()
	}
	if e.By == "" {
		e.By = e.Identity.By
	}
	e.Identity = Identity{}
	for _, text := range []*string{&e.By, &e.Peer, &e.Verb, &e.Name, &e.Result, &e.Session} {
		cut(text, textBytes)
	}
	cut(&e.Detail, moreBytes)
	whose, isClient := e.whose()

	a.mu.Lock()
	defer a.mu.Unlock()
	r := a.rateLocked(whose, isClient, time.Now())
	if r.left < 1 {
		r.missed++
		a.m.dropped.WithLabelValues(causeRate).Inc()
		return
	}
	e.Missed = r.missed
	select {
	case a.queue <- &e:
		r.left--
		r.missed = 0
	default:
		r.missed++
		a.m.dropped.WithLabelValues(causeQueue).Inc()
	}
}

// cut shortens a text.
func cut(text *string, most int) {
	if len(*text) > most {
		*text = strings.Clone((*text)[:most])
	}
}

// rateLocked returns the rate of a client as it is now. When there are too many rates, those that were quiet for a
// minute are forgotten. Clients of the file always have their own; if there are still too many, strangers share one.
func (a *auditor) rateLocked(whose string, isClient bool, now time.Time) *rate {
	if a.rates[whose] == nil && len(a.rates) >= maxRates {
		if now.Sub(a.swept) >= time.Second {
			a.swept = now
			maps.DeleteFunc(a.rates, func(_ string, r *rate) bool { return now.Sub(r.at) > time.Minute })
		}
		if !isClient && len(a.rates) >= maxRates {
			whose = ""
		}
	}
	r := a.rates[whose]
	if r == nil {
		r = &rate{left: burstLines, at: now}
		a.rates[whose] = r
	}
	if now.After(r.at) {
		r.left = min(burstLines, r.left+rateLines*now.Sub(r.at).Seconds())
		r.at = now
	}
	return r
}

// run writes lines, and at the end those that are left.
func (a *auditor) run() {
	defer close(a.ended)
	defer func() { _ = a.to.Close() }() // each line was written
	failing := false
	for {
		select {
		case e := <-a.queue:
			failing = a.write(e, failing)
			continue
		default:
		}
		select {
		case e := <-a.queue:
			failing = a.write(e, failing)
		case <-a.stop:
			if len(a.queue) == 0 {
				return
			}
		}
	}
}

// write writes a line, and says whether that failed. The client's next line tells how many could not be written.
func (a *auditor) write(e *Event, failing bool) bool {
	text, err := e.text()
	if err == nil {
		_, err = a.to.Write(text)
	}
	if err == nil {
		a.m.lines.Inc()
		if failing {
			a.log.Info("the audit is written again")
		}
		return false
	}
	if !failing {
		a.log.Error("the audit cannot be written; lines are lost until it can", zap.Error(err))
	}
	a.m.dropped.WithLabelValues(causeWrite).Inc()
	a.mu.Lock()
	defer a.mu.Unlock()
	whose, isClient := e.whose()
	a.rateLocked(whose, isClient, time.Now()).missed += 1 + e.Missed
	return true
}

// whose is whose rate bounds a line: a client's, that of an address whose client is not known, or lockd's own.
func (e *Event) whose() (name string, isClient bool) {
	switch {
	case e.Client != "":
		return "client " + e.Client, true
	case e.Peer == "":
		return "lockd", true
	}
	return string(limits.TenantOf(e.Peer)), false
}

// text is a line of JSON, escaped so that it can do nothing to a terminal.
func (e *Event) text() ([]byte, error) {
	e.Time = e.Time.UTC()
	var line bytes.Buffer
	j := json.NewEncoder(&line)
	j.SetEscapeHTML(false)
	if err := j.Encode(e); err != nil {
		return nil, err
	}
	return []byte(observe.Escape(line.String(), observe.Harmful)), nil
}

// close has the remaining lines written, but waits for no longer than lastWait: the disk may hang.
func (a *auditor) close() {
	if a == nil {
		return
	}
	a.once.Do(func() { close(a.stop) })
	select {
	case <-a.ended:
	case <-time.After(lastWait):
		a.log.Error("the audit could not be written in time; its last lines are lost",
			zap.Int(observe.KeyCount, len(a.queue)))
	}
}

// openAudit opens what the audit is written to; nil if path is empty.
func openAudit(path string) (io.WriteCloser, error) {
	switch path {
	case "":
		return nil, nil
	case "stdout":
		return stdout{os.Stdout}, nil
	}
	f := &auditFile{path: path}
	return f, f.open()
}

// CheckAudit says whether the audit can be opened. It leaves no file behind, because a file of this user might not be
// writable for lockd.
func CheckAudit(path string) error {
	if path == "" || path == "stdout" {
		return nil
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		if f, err = os.CreateTemp(filepath.Dir(path), ".lockd-check-*"); err == nil {
			defer func() { _ = os.Remove(f.Name()) }() // it was only a test
		}
	}
	if err != nil {
		return err
	}
	return f.Close()
}

// stdout is never closed, because others write to it, too.
type stdout struct{ io.Writer }

func (stdout) Close() error { return nil }

// auditFile is opened again when its path has another file, or none: that is how logs are rotated.
type auditFile struct {
	path  string
	file  *os.File
	asked time.Time // when its path was last looked at
	torn  bool      // the last line ends in the middle
}

func (f *auditFile) open() error {
	// With O_NONBLOCK a pipe that nobody reads is refused at once.
	next, err := os.OpenFile(f.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY|syscall.O_NONBLOCK, 0o600)
	if err != nil {
		return err
	}
	if f.file != nil {
		_ = f.file.Close() // each line was written
	}
	f.file, f.torn = next, false
	return nil
}

func (f *auditFile) Write(line []byte) (int, error) {
	if now := time.Now(); now.Sub(f.asked) >= time.Second {
		if !f.isInPlace() {
			if err := f.open(); err != nil {
				return 0, err // no line goes to the file that was moved
			}
		}
		f.asked = now
	}
	if f.torn {
		line = append([]byte{'\n'}, line...)
	}
	n, err := f.file.Write(line)
	f.torn = f.torn && n == 0 || n > 0 && n < len(line)
	return n, err
}

func (f *auditFile) isInPlace() bool {
	here, err := f.file.Stat()
	there, err2 := os.Stat(f.path)
	return err == nil && err2 == nil && os.SameFile(here, there)
}

func (f *auditFile) Close() error { return f.file.Close() }
