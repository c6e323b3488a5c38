package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/lockd-io/lockd/client"
)

func (d *driver) keep(name string, l *client.Lock) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holds[name] = l
}

func (d *driver) hold(name string) (*client.Lock, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if l := d.holds[name]; l != nil {
		return l, nil
	}
	return nil, fmt.Errorf("there is no hold %q", name)
}

// tellOfLoss waits for the ends of what a command took, and tells those that are losses. It begins after the answer.
func (d *driver) tellOfLoss(c *command) {
	var names []string
	switch c.Op {
	case "lock", "lock_all":
		names = append(c.Holds, c.Hold)
	case "campaign":
		names = []string{c.Term}
	}
	for _, name := range names {
		l, err := d.hold(name)
		if err != nil {
			continue
		}
		go func() {
			<-l.Context().Done()
			if lost, ok := errors.AsType[*client.LostError](l.Err()); ok {
				d.say(fields{
					"event": "lost", "hold": name, "reason": strings.ToUpper(string(lost.Reason)),
					"by": lost.By, "why": lost.Why, "max_hold": lost.MaxHold,
				})
			}
		}()
	}
}

// endOf says why a lock is not held any more.
func endOf(err error) string {
	if lost, ok := errors.AsType[*client.LostError](err); ok {
		return strings.ToUpper(string(lost.Reason))
	}
	return "UNLOCKED"
}

// ours are the words of drivers for reasons for which the Go SDK has others.
var ours = map[string]string{
	"LOCK_BUSY":      "HELD",
	"WAIT_TIMEOUT":   "TIMED_OUT",
	"WAIT_CANCELLED": "CANCELLED",
	"LOCK_LOST":      "LOST",
	"LOCK_NOT_HELD":  "NOT_HELD",
	"CLIENT_CLOSED":  "CLOSED",
}

// failure is the answer to a command that failed.
func failure(id int64, err error) map[string]any {
	reason := client.Reason(err)
	if word, ok := ours[reason]; ok {
		reason = word
	}
	switch {
	case errors.Is(err, errUnsupported):
		reason = "UNSUPPORTED"
	case errors.Is(err, client.ErrUnlocked):
		reason = "UNLOCKED"
	case reason == "":
		reason = "INTERNAL"
	}
	return map[string]any{"id": id, "error": reason, "message": err.Error(), "detail": detail(err)}
}

// detail is what an error has besides.
func detail(err error) fields {
	if e, ok := errors.AsType[*client.HeldError](err); ok {
		return fields{
			"name": e.Name, "held_by": e.HeldBy, "client": e.Client, "annotation": e.Annotation,
			"retry_after": e.RetryAfter.Milliseconds(), "address": e.Peer, "held_for": e.HeldFor.Milliseconds(),
		}
	}
	if e, ok := errors.AsType[*client.LimitError](err); ok {
		return fields{"limit": e.Limit}
	}
	if e, ok := errors.AsType[*client.ForbiddenError](err); ok {
		return fields{"client": e.Client, "right": e.Right, "name": e.Name}
	}
	if e, ok := errors.AsType[*client.LostError](err); ok {
		return fields{"reason": endOf(e)}
	}
	return fields{}
}
