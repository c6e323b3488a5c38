package main

import (
	"fmt"
	"strconv"

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

// lockView is how a lock is shown. Its keys are part of what lockctl promises: they are never renamed.
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
	v := lockView{
		Name: s.GetName(), Kind: kindName(s.GetKind()), Held: s.GetHeld(), Holder: s.GetHeldBy(), Client: s.GetClient(),
		Fence: s.GetFence(), HoldCount: s.GetHoldCount(), Waiters: s.GetWaiters(), Annotation: s.GetAnnotation(),
		Holders: s.GetHolders(), Limit: s.GetLimit(), Queued: s.GetQueued(), Members: s.GetMembers(),
	}
	if ttl := s.GetTtl(); ttl != nil {
		ms := ttl.AsDuration().Milliseconds()
		v.TTL = &ms
	}
	return v
}

func kindName(k lockdv1.LockKind) string {
	if k == lockdv1.LockKind_LOCK_KIND_UNSPECIFIED {
		return ""
	}
	return client.Kind(k).String()
}

func (v lockView) ttl() string { return milliseconds(v.TTL) }

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

// counted is a number of things, such as 1 permit or 2 permits.
func counted[N int | uint32 | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprintf("%d %s", n, thing)
}

func number(n uint32) string { return strconv.FormatUint(uint64(n), 10) }

// dash stands for what is not known.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
