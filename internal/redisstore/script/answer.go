package script

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// The first element of what the scripts that acquire and release answer.
const (
	codeHeld    = 0
	Done        = 1
	Handoff     = 2
	codeNotHeld = -1
	codeStale   = -2
	Mismatch    = -3
	codeLimit   = -4
	codeTooMany = -5
)

// Millis is a duration for Redis, in milliseconds. It is rounded up, because a lease must not end before the time that
// was told; and never 0, which would delete the key.
func Millis(d time.Duration) int64 {
	return max(1, int64((d+time.Millisecond-1)/time.Millisecond))
}

// MillisOrNone is Millis, but 0 if d is not positive.
func MillisOrNone(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return Millis(d)
}

// TTL is a PTTL reply as a duration, lock.NoTTL if it is negative.
func TTL(pttl int64) time.Duration {
	if pttl < 0 {
		return lock.NoTTL
	}
	return time.Duration(pttl) * time.Millisecond
}

// Decimal is a fence for Redis.
func Decimal(f lock.Fence) string { return strconv.FormatUint(uint64(f), 10) }

// ErrBadAnswer: a script gave an answer that it never gives. Something on the way changed the reply.
var ErrBadAnswer = errors.New("an answer that no script gives")

// Answer is the list that a script returned. The methods that read an element note in Err, as lock.ErrOutcomeUnknown,
// the first one that is wrong.
type Answer struct {
	List []any
	Err  error
	Few  error // lock.ErrNotReplicated if the script ran, but too few replicas have what it granted
}

func (a *Answer) at(i int) any {
	if i >= len(a.List) {
		return nil
	}
	return a.List[i]
}

// Int is a number, 0 if the element is none.
func (a *Answer) Int(i int) int64 {
	v, ok := a.at(i).(int64)
	if !ok {
		a.Bad(i)
	}
	return v
}

// Text is a text, empty if the element is none.
func (a *Answer) Text(i int) string {
	v, ok := a.at(i).(string)
	if !ok {
		a.Bad(i)
	}
	return v
}

// Number is a count: a negative number reads as 0.
func (a *Answer) Number(i int) uint32 { return uint32(min(max(a.Int(i), 0), math.MaxUint32)) }

// Fence is a fence. It must be positive.
func (a *Answer) Fence(i int) lock.Fence {
	v := a.Int(i)
	if v <= 0 {
		a.Bad(i)
	}
	return lock.Fence(v) //nolint:gosec // checked above
}

// Last is the last fence of a name, which scripts answer as a text; 0 if Redis has none.
func (a *Answer) Last(i int) lock.Fence {
	f, err := strconv.ParseUint(a.Text(i), 10, 64)
	if err != nil {
		return 0
	}
	return lock.Fence(f)
}

// Bad notes in Err that an element is wrong.
func (a *Answer) Bad(i int) {
	if a.Err == nil {
		a.Err = fmt.Errorf("%w: %w: element %d of %v", lock.ErrOutcomeUnknown, ErrBadAnswer, i, a.List)
	}
}

// Code is the first element: what the script did.
func (a *Answer) Code() int64 { return a.Int(0) }

// Refusal is the error for a code that means no.
func (a *Answer) Refusal() error {
	switch {
	case a.Err != nil:
		return a.Err
	case a.Code() == codeNotHeld:
		return lock.ErrNotHeld
	case a.Code() == codeStale:
		return lock.ErrStale
	}
	a.Bad(0)
	return a.Err
}

// Denial is the error for a claim on a name that was not granted. The elements from at on say why.
func (a *Answer) Denial(at int, name string) error {
	var err error
	switch a.Code() {
	case codeHeld:
		held := &lock.HeldError{Name: name, RetryAfter: TTL(a.Int(at)), HeldBy: lock.Owner(a.Text(at + 1))}
		if len(a.List) > at+2 {
			held.Ahead = int(a.Int(at + 2))
		}
		err = held
	case codeLimit:
		err = &lock.LimitError{Limit: a.Number(at)}
	case codeTooMany:
		err = lock.Invalid("permits", lock.ReasonPermits, fmt.Sprintf("the semaphore has %d", a.Int(at)))
	default:
		return a.Refusal()
	}
	if a.Err != nil {
		return a.Err
	}
	return err
}
