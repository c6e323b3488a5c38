package sentinel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
)

const (
	// others is the part of Timeout for which find waits at most, after the first answer, for a majority to answer.
	others = 5
	// remembered is for how many lookEvery an answer is ignored that is older than the newest one heard.
	remembered = 10
	// connections is how many each sentinel has from us at most.
	connections = 4
)

// place is where the master is, as a sentinel says.
type place struct {
	addr  string
	epoch int64 // counts the fail-overs
}

// answer is what one sentinel said.
type answer struct {
	place
	err error
}

// client makes a client of one sentinel. Its connections end with the guide.
func (g *Guide) client(addr string) *redis.Client {
	wire := pipe.Wire{TLS: g.TLS, Wrap: func(c net.Conn) net.Conn {
		context.AfterFunc(g.ctx, func() { _ = c.Close() })
		return c
	}}
	o := &redis.Options{
		Addr: addr, Username: g.Username, ClientName: "lockd",
		Protocol: 2, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true,
		DialTimeout: g.Timeout, ReadTimeout: g.Timeout, WriteTimeout: g.Timeout, PoolTimeout: g.Timeout,
		PoolSize: connections,
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(ctx, g.Timeout)
			defer cancel()
			defer context.AfterFunc(g.ctx, cancel)()
			return wire.Dial(ctx, network, addr)
		},
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if g.PasswordNow != nil {
		o.CredentialsProvider = func() (username, password string) { return g.Username, g.PasswordNow() }
	}
	pipe.CheckReplies(o, nil)
	return redis.NewClient(o)
}

func (g *Guide) find(ctx context.Context) (place, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, g.Timeout, errSilent)
	defer cancel()
	answers := make(chan answer, len(g.sentinels))
	for _, s := range g.sentinels {
		go func() { answers <- g.ask(ctx, s) }() // Close ends it with its connection
	}
	var best place
	var errs []error
	var enough <-chan time.Time
	said := 0
	for open := true; open && said <= len(g.sentinels)/2 && said+len(errs) < len(g.sentinels); {
		select {
		case a := <-answers:
			if a.err != nil {
				errs = append(errs, a.err)
				continue
			}
			if said++; said == 1 || a.epoch > best.epoch {
				best = a.place
			}
			if enough == nil {
				enough = time.After(g.Timeout / others)
			}
		case <-enough:
			open = false
		case <-ctx.Done():
			errs = append(errs, context.Cause(ctx))
			open = false
		}
	}
	if said == 0 {
		return place{}, fmt.Errorf("no sentinel says where the master is: %w", errors.Join(errs...))
	}
	return g.newest(best), nil
}

var errSilent = errors.New("the sentinels do not answer in time")

// newest is p, unless a newer place was heard of a short time ago. Later than that p counts even with a smaller epoch,
// because the sentinels may have begun to count anew. Connections to earlier masters are cut.
func (g *Guide) newest(p place) place {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); p.epoch >= g.latest.epoch || now.Sub(g.heard) > remembered*lookEvery {
		g.latest, g.heard = p, now
		if g.endLocked(func(old place) bool { return old.addr != p.addr && old.epoch <= p.epoch }) {
			g.log.Info("another server is the master", zap.String(observe.KeyAddr, p.addr))
		}
	}
	return g.latest
}

// ask asks one sentinel. While it fails over, only the first question is answered with the new address.
func (g *Guide) ask(ctx context.Context, s *redis.Client) answer {
	addr := redis.NewStringSliceCmd(ctx, "sentinel", "get-master-addr-by-name", g.Master)
	master := redis.NewMapStringStringCmd(ctx, "sentinel", "master", g.Master)
	_, err := s.Pipelined(ctx, func(p redis.Pipeliner) error {
		return errors.Join(p.Process(ctx, addr), p.Process(ctx, master))
	})
	var a answer
	if err == nil {
		a.epoch, err = strconv.ParseInt(master.Val()["config-epoch"], 10, 64)
	}
	if err == nil && len(addr.Val()) != 2 {
		err = errors.New("this is no address")
	}
	if remedy := remedies.For(err); remedy != "" {
		err = &pipe.WrongError{Err: err, Remedy: remedy}
	}
	if err != nil {
		return answer{err: fmt.Errorf("ask the sentinel %s: %w", s.Options().Addr, err)}
	}
	a.addr = net.JoinHostPort(addr.Val()[0], addr.Val()[1])
	return a
}

const password = "check redis.sentinel.username and redis.sentinel.password_file"

var remedies = pipe.Remedies{
	"ERR No such master":  "check redis.sentinel.master: the sentinels call no master so",
	redis.Nil.Error():     "check redis.sentinel.master: the sentinels call no master so",
	"WRONGPASS ":          password,
	"NOAUTH ":             password,
	"ERR AUTH ":           password,
	"NOPERM ":             "the user of redis.sentinel.username may not run SENTINEL",
	"ERR unknown command": "check redis.sentinel.addrs: this is no sentinel",
}
