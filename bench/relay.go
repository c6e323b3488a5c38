package main

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// relay answers each Acquire and each Release as echo does, after it had Redis run lockd's script for it with go-redis.
// So there are three processes, as with lockd, and nothing else: the difference is what lockd does besides.
type relay struct {
	lockdv1.UnimplementedSessionServiceServer
	redis   *redis.Client
	scripts *scripts
}

// Session implements the service.
func (r relay) Session(stream lockdv1.SessionService_SessionServer) error {
	owner := strings.ToLower(rand.Text()) + ":#1"
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil //nolint:nilerr // the client has left
		}
		answer := answerTo(m)
		fence, err := r.ask(stream.Context(), m, owner)
		if err != nil {
			return err
		}
		if g := answer.GetGranted(); g != nil {
			g.Holds[0].Fence = fence
		}
		if err := stream.Send(answer); err != nil {
			return err
		}
	}
}

// ask has Redis run the script of a message, and returns the fence of a grant.
func (r relay) ask(ctx context.Context, m *lockdv1.SessionRequest, owner string) (fence uint64, err error) {
	c, name, held := r.scripts.acquire, m.GetAcquire().GetName(), ""
	if back := m.GetRelease(); back != nil {
		c, name, held = r.scripts.release, back.GetName(), strconv.FormatUint(back.GetFence(), 10)
	}
	keys, args := r.scripts.about(c, name, owner, held)
	got, err := c.run(ctx, r.redis, keys, args)
	if err != nil {
		return 0, err
	}
	return uint64(got[1]), nil
}

// relayCommand is the first argument with which this program is the relay. The others are the addresses of Redis and of
// the lockd that it learns the scripts from.
const relayCommand = "relay"

func serveRelay(args []string) error {
	if len(args) != 2 {
		return errors.New("want the addresses of Redis and of lockd")
	}
	e := env{redis: &process{addr: args[0]}, lockd: []*process{{addr: args[1]}}}
	s, err := learnScripts(context.Background(), e)
	if err != nil {
		return err
	}
	return serveBare(relay{redis: newPool(e, manyCallers), scripts: s})
}

// relayWith is a relay with so many connections, one for each caller.
func relayWith(connections int) func(env, int) (locker, error) {
	return bareWith(connections, func(e env) []string { return []string{relayCommand, e.redis.addr, e.lockd[0].addr} })
}
