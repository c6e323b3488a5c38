package pipe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// underWay is for how long a command may be on its way after its connection was closed: more than anybody has seen.
	underWay = 15 * time.Second
	// mostUnended is how many connections are remembered: the newest ones.
	mostUnended = 1000
)

// self is how a server names a connection: the run id of the server, and the id of its client. They are zero if the
// server does not tell.
type self struct {
	run string
	id  int64
}

// Unended are connections that were closed while something was unanswered. The server may not have noticed, and may
// still carry out what was sent on them. The next connection ends them before it is used. A nil Unended remembers
// nothing.
type Unended struct {
	mu  sync.Mutex // guards the field below
	all []unended
}

type unended struct {
	self
	closed time.Time
}

// add remembers a closed connection if something was under way on it.
func (u *Unended) add(c *conn) {
	if u == nil || len(c.under) == 0 {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.all) >= mostUnended {
		u.all = u.all[1:]
	}
	u.all = append(u.all, unended{c.self, time.Now()})
}

// at are those that may be connections to the server with this run id, all if run is empty.
func (u *Unended) at(run string) (all []unended) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, one := range u.all {
		if one.run == run || one.run == "" || run == "" {
			all = append(all, one)
		}
	}
	return all
}

func (u *Unended) forget(one unended) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.all = slices.DeleteFunc(u.all, func(other unended) bool { return other == one })
}

var (
	// errNotEnded: what was sent on an earlier connection may be carried out yet.
	errNotEnded = errors.New("an earlier connection could not be ended")
	errNameless = errors.New("the server does not tell its run id, or those of its clients")
)

// What it means if a server refuses what is needed to end connections, and what to do about it.
const (
	NotEnded       = "nothing is done for 15 s after a connection broke"
	RemedyNotEnded = "give the user of redis.username the rights client|kill, client|id and info"
)

// endAt ends the unended connections to a server, over a connection that was just made. It fails if one of them was not
// ended, and commands of it may still be carried out.
func (u *Unended) endAt(ctx context.Context, c *redis.Client, me self) error {
	for _, one := range u.at(me.run) {
		err := errNameless
		if one.run != "" && one.run == me.run && one.id > 0 {
			err = c.Do(ctx, "client", "kill", "id", one.id).Err() // it finds none if the server has noticed
			if err != nil && !errors.As(err, new(redis.Error)) {
				return err
			}
		}
		if err != nil && time.Since(one.closed) < underWay {
			return &WrongError{Err: fmt.Errorf("%w: %w", errNotEnded, err), Remedy: RemedyNotEnded}
		}
		u.forget(one)
	}
	return nil
}

// selfOf reads what a server says of itself, and of a connection.
func selfOf(info, id *redis.Cmd) (me self) {
	me.id, _ = id.Int64()
	text, _ := info.Text()
	me.run = InfoField(text, "run_id")
	return me
}

// InfoField is a field of an INFO reply, empty if it is not there.
func InfoField(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
