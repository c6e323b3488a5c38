package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/client"
)

// call is a script that lockd had Redis run.
type call struct {
	sha        string
	keys, args []string
}

// scripts are the calls by which lockd locks and unlocks a free name, as Redis's MONITOR shows them. So this program
// need not know lockd's scripts.
type scripts struct {
	acquire, release   call
	name, owner, fence string // what the calls are about: their places are found by the values
}

// learnScripts watches lockd lock and unlock a name.
func learnScripts(ctx context.Context, e env) (*scripts, error) {
	c, err := client.Dial(e.lockd[0].addr, client.WithName("bench"))
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	if _, err := lockOnce(ctx, c, newName()); err != nil { // Redis knows the scripts afterwards
		return nil, err
	}
	conn, err := net.DialTimeout("tcp", e.redis.addr, patience)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(2 * patience)) // a connection that cannot have one fails below
	seen := bufio.NewScanner(conn)
	if _, err := fmt.Fprint(conn, "MONITOR\r\n"); err != nil || !seen.Scan() || seen.Text() != "+OK" {
		return nil, fmt.Errorf("watch Redis: %q, %w", seen.Text(), errors.Join(err, seen.Err()))
	}
	s := &scripts{name: newName()}
	if s.fence, err = lockOnce(ctx, c, s.name); err != nil {
		return nil, err
	}
	return s, s.find(seen)
}

// lockOnce returns the fence.
func lockOnce(ctx context.Context, c *client.Client, name string) (string, error) {
	l, err := c.Lock(ctx, name)
	if err != nil {
		return "", err
	}
	return strconv.FormatUint(l.Fence(), 10), l.Unlock(ctx)
}

// aCall is a line of MONITOR: a script that a client calls, not what the script calls in turn.
var aCall = regexp.MustCompile(`^\+\S+ \[\d+ [^l]\S*\] "(?i:evalsha)" `)

// owner is lockd's: <session>:<holder>#<request>.
var owner = regexp.MustCompile(`^[^:]+:[^:]*#\d+$`)

// find finds the two calls about the name.
func (s *scripts) find(seen *bufio.Scanner) error {
	for _, c := range []*call{&s.acquire, &s.release} {
		for c.sha == "" {
			if !seen.Scan() {
				return fmt.Errorf("lockd's scripts were not seen: %w", seen.Err())
			}
			if line := seen.Text(); aCall.MatchString(line) && strings.Contains(line, s.name) {
				*c = parseCall(line)
			}
		}
	}
	at := slices.IndexFunc(s.acquire.args, owner.MatchString)
	if at < 0 {
		return fmt.Errorf("no owner in what lockd asked: %q", s.acquire.args)
	}
	s.owner = s.acquire.args[at]
	return nil
}

// parseCall reads "evalsha" "SHA" "NUMBER OF KEYS" "KEY"... "ARG"...
func parseCall(line string) call {
	var words []string
	for rest := line[strings.Index(line, `"`):]; rest != ""; {
		word, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		rest = strings.TrimPrefix(rest[len(word):], " ")
		word, _ = strconv.Unquote(word) // it is quoted
		words = append(words, word)
	}
	if len(words) < 3 {
		return call{}
	}
	n, _ := strconv.Atoi(words[2])
	n = min(n, len(words)-3)
	return call{sha: words[1], keys: words[3 : 3+n], args: words[3+n:]}
}

// about is a call with other values in place of those that were seen.
func (s *scripts) about(c call, name, owner, fence string) (keys []string, args []any) {
	for _, k := range c.keys {
		keys = append(keys, strings.Replace(k, s.name, name, 1))
	}
	for _, a := range c.args {
		switch a {
		case s.owner:
			a = owner
		case s.fence:
			a = fence
		}
		args = append(args, a)
	}
	return keys, args
}

// run has Redis run a script; the first number of the answer must be 1.
func (c call) run(ctx context.Context, on redis.Scripter, keys []string, args []any) ([]int64, error) {
	got, err := on.EvalSha(ctx, c.sha, keys, args...).Int64Slice()
	if err == nil && (len(got) < 2 || got[0] != 1) {
		err = fmt.Errorf("%q: got %v", keys, got)
	}
	return got, err
}

// directly runs lockd's scripts without lockd. It does not wait: the name must be free.
func directly(dial dialer) func(env, int) (locker, error) {
	return func(e env, callers int) (locker, error) {
		c, closeIt, err := dial(e, callers)
		if err != nil {
			return nil, err
		}
		s, session := e.scripts, strings.ToLower(rand.Text())
		return funcs{closeFunc: closeIt, lockFunc: func(ctx context.Context, caller int, name string) (unlockFunc, error) {
			me := fmt.Sprintf("%s:#%d", session, caller)
			keys, args := s.about(s.acquire, name, me, "")
			got, err := s.acquire.run(ctx, c, keys, args)
			if err != nil {
				return nil, fmt.Errorf("acquire: %w", err)
			}
			fence := strconv.FormatInt(got[1], 10)
			return func(ctx context.Context) error {
				keys, args := s.about(s.release, name, me, fence)
				_, err := s.release.run(ctx, c, keys, args)
				return err
			}, nil
		}}, nil
	}
}
