package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
)

const (
	outputText = "text"
	outputJSON = "json"
)

func checkOutput(format string) error {
	if format != outputText && format != outputJSON {
		return usagef("--output must be %s or %s, not %q", outputText, outputJSON, format)
	}
	return nil
}

// shown is what a command prints.
type shown struct {
	json any             // with -o json
	text func(p *screen) // else; nil for JSON in any case
	// missing is told on stderr, and code is the exit code.
	missing silence
	code    int
}

func (o *options) show(cmd *cobra.Command, v shown) error {
	var err error
	if o.output == outputJSON || v.text == nil {
		err = printJSON(cmd.OutOrStdout(), v.json)
	} else {
		var p screen
		v.text(&p)
		_, err = p.WriteTo(cmd.OutOrStdout())
	}
	if err == nil {
		err = v.missing.tell(cmd.ErrOrStderr())
	}
	if err == nil && v.code != 0 {
		err = codeError{code: v.code}
	}
	return err
}

// screen is text for people. All of it is made safe for a terminal.
type screen struct{ bytes.Buffer }

func (p *screen) line(format string, args ...any) { _ = printLine(p, format, args...) } // a Buffer takes everything

// table has rows in columns.
func (p *screen) table(rows [][]string) {
	tw := tabwriter.NewWriter(p, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, text := range row {
			cells[i] = cell(text)
		}
		_, _ = io.WriteString(tw, strings.Join(cells, "\t")+"\n")
	}
	_ = tw.Flush()
}

// silence is how many replicas were asked, and did not answer, and why the store could not be asked.
type silence struct {
	asked, silent uint32
	store         string
}

// add notes one answer of all replicas.
func (s *silence) add(r interface {
	GetReplicasAsked() uint32
	GetReplicasAnswered() uint32
	GetStoreError() string
},
) {
	s.store = cmp.Or(s.store, r.GetStoreError())
	s.asked = max(s.asked, r.GetReplicasAsked())
	s.silent = max(s.silent, r.GetReplicasAsked()-r.GetReplicasAnswered())
}

// tell says what is missing.
func (s silence) tell(w io.Writer) error {
	var err error
	if s.store != "" {
		err = printLine(w, "%s: this is what the replica remembers, and what others know is missing", s.store)
	}
	if s.silent > 0 {
		err = cmp.Or(err, printLine(w, "%s", s.replicas()))
	}
	return err
}

func (s silence) replicas() string {
	return fmt.Sprintf("%d of %d replicas did not answer: what they know is missing", s.silent, s.asked)
}

// lockView is how a lock is shown. Keys of JSON are part of what lockctl promises: they are never renamed. What nobody
// knows is empty.
type lockView struct {
	Name       string `json:"name"`
	Kind       string `json:"kind"` // empty if it cannot be told
	Held       bool   `json:"held"`
	Holder     string `json:"holder"`
	Client     string `json:"client"`
	Fence      uint64 `json:"fence"`
	TTL        *int64 `json:"ttl_ms"` // null if it is not held, or has no end
	HoldCount  uint32 `json:"hold_count"`
	Waiters    uint32 `json:"waiters"`
	Annotation string `json:"annotation"`
	Holders    uint32 `json:"holders"`
	Limit      uint32 `json:"limit"`
	Queued     uint32 `json:"queued"`
	Members    uint32 `json:"members,omitempty"`
}

func viewLock(s *lockdv1.LockState) lockView {
	return lockView{
		Name: s.GetName(), Kind: kindName(s.GetKind()), Held: s.GetHeld(), Holder: s.GetHeldBy(), Client: s.GetClient(),
		Fence: s.GetFence(), HoldCount: s.GetHoldCount(), Waiters: s.GetWaiters(), Annotation: s.GetAnnotation(),
		Holders: s.GetHolders(), Limit: s.GetLimit(), Queued: s.GetQueued(), Members: s.GetMembers(),
		TTL: viewTime(s.GetTtl()),
	}
}

func kindName(k lockdv1.LockKind) string {
	if k == lockdv1.LockKind_LOCK_KIND_UNSPECIFIED {
		return ""
	}
	return client.Kind(k).String()
}

// holders is how many hold it, for a semaphore of how many permits.
func (v lockView) holders() string {
	n := number(v.Holders)
	if v.Limit > 0 {
		n += "/" + number(v.Limit)
	}
	return n
}

// waiting is how many are known to wait: anywhere for a fair lock, else on the replica that answered.
func (v lockView) waiting() uint32 { return max(v.Waiters, v.Queued) }

// partyView is who holds a lock or waits for one.
type partyView struct {
	Kind       string `json:"kind"`
	Owner      string `json:"owner"`
	Session    string `json:"session"` // empty for a unary call
	Client     string `json:"client"`
	Address    string `json:"address"`
	Replica    string `json:"replica"`
	Annotation string `json:"annotation"`
	Age        *int64 `json:"age_ms"`
}

func viewParty(p interface {
	GetKind() lockdv1.LockKind
	GetOwner() string
	GetSessionId() string
	GetClientName() string
	GetPeer() string
	GetReplica() string
	GetAnnotation() string
	GetAge() *durationpb.Duration
},
) partyView {
	return partyView{
		Kind: kindName(p.GetKind()), Owner: p.GetOwner(), Session: p.GetSessionId(), Client: p.GetClientName(),
		Address: p.GetPeer(), Replica: p.GetReplica(), Annotation: p.GetAnnotation(), Age: viewTime(p.GetAge()),
	}
}

func viewTime(d *durationpb.Duration) *int64 {
	if d == nil {
		return nil
	}
	return new(d.AsDuration().Milliseconds())
}

// milliseconds is duration for what JSON tells, or a dash.
func milliseconds(ms *int64) string {
	if ms == nil {
		return "-"
	}
	return duration(time.Duration(*ms) * time.Millisecond)
}

// duration is a time as a person writes it: 24h and 1m30s, not 24h0m0s. What is longer than a second is told in tenths.
func duration(d time.Duration) string {
	switch {
	case d >= time.Minute:
		d = d.Round(time.Second)
	case d >= time.Second:
		d = d.Round(100 * time.Millisecond)
	default:
		d = d.Round(time.Millisecond)
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// counted is a number of things, such as 1 permit or 2 permits.
func counted[N int | uint32](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// dash stands for what is not known.
func dash(s string) string { return cmp.Or(s, "-") }
