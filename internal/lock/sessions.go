package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// What can go wrong with the record of a session.
var (
	// ErrSessionGone: there is no such record. It ended, or ran out, or was lost with the data.
	ErrSessionGone = errors.New("the session has ended")
	// ErrSuperseded: the session goes on elsewhere, in a later epoch.
	ErrSuperseded = errors.New("the session goes on elsewhere")
	// ErrToken: the token is not that of the session.
	ErrToken = errors.New("the resume token is not that of the session")
)

// SessionRecord is what a Store keeps of a session, so that it can go on at another replica. It holds nothing by
// itself.
type SessionRecord struct {
	// ID is the session, a UUID.
	ID string
	// Epoch counts the attempts to begin the session and to go on with it. The client counts them: each has a greater
	// one than all before, the first has 1.
	Epoch uint64
	// Nonce is random, and made anew for each attempt. It tells two attempts with the same epoch apart.
	Nonce string
	// TokenHash tells whose session it is, without the token.
	TokenHash string
	// Client and Replica are for people.
	Client, Replica string
	// Tenant is as in Claim, and not kept.
	Tenant string
}

// CheckSession says whether a record can be that of a session.
func (r SessionRecord) CheckSession() error {
	if r.ID == "" || r.Epoch == 0 || r.Nonce == "" || r.TokenHash == "" {
		return fmt.Errorf("%w: a session needs an id, an epoch, a nonce and a token", ErrInvalid)
	}
	return nil
}

// SupersededBy says whether had, the record that is kept, is of an attempt that wins against r.
func (r SessionRecord) SupersededBy(had SessionRecord) bool {
	return had.Epoch > r.Epoch || had.Epoch == r.Epoch && had.Nonce != r.Nonce
}

// SessionKeep asks to prolong a record.
type SessionKeep struct {
	// SessionRecord is what the record is to be. An older epoch is brought up to it.
	SessionRecord
	// TTL is how long the record is kept from now. A longer remaining time is never shortened.
	TTL time.Duration
	// Again has the record made again if it is gone, because the caller knows that the session goes on: the store lost it.
	Again bool
}

// EndedSession is for how long a Store knows that a record has ended. No command that would make it again is executed
// later than that.
const EndedSession = time.Minute

// ForcedEnd is for how long a Store knows at least that a record was ended by force. Whoever has the session prolongs
// its record before that.
const ForcedEnd = time.Hour

// Sessions keeps who has a session. Of all attempts that are carried out, in whatever order, the one with the greatest
// epoch has it.
type Sessions interface {
	// TakeSession gives the session to the attempt r, and keeps its record for ttl from now. With epoch 1 the session
	// begins; with a greater one there must be a record. It returns ErrSessionGone if there is none, ErrToken if the
	// record has another token, and ErrSuperseded if it has a greater epoch, or the same one with another nonce. Repeated:
	// no error. Executed late: ErrSuperseded or ErrSessionGone.
	TakeSession(ctx context.Context, r SessionRecord, ttl time.Duration) error

	// StartKeepSession prolongs a record, and tells the outcome to done as StartAcquire does: ErrSessionGone if there is
	// none, and ErrSuperseded if the record has a greater epoch, or the same one with another nonce. Repeated or executed
	// late: the same.
	StartKeepSession(k SessionKeep, done func(error))

	// EndSession ends a record. It returns ErrSuperseded if the record has a greater epoch. Afterwards nobody goes on with
	// the session. Until EndedSession has passed, a call with this epoch or an older one that is executed late does not
	// make the record again. Repeated, or without a record: no error. Executed late: the same.
	EndSession(ctx context.Context, id string, epoch uint64) error

	// ForceEndSession ends a record whatever epoch it has, and says whether there was one. Afterwards nobody takes the
	// session. Whoever has the session is told ErrSessionGone when it prolongs the record within ForcedEnd, also if there
	// was no record here or an older one. EndSession with its epoch is no error. Repeated: there is none. Executed late:
	// the same.
	ForceEndSession(ctx context.Context, id string) (was bool, err error)
}
