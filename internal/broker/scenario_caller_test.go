package broker_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/broker"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// caller makes unary calls in a scenario, each of which may take a while.
type caller struct {
	name   string
	b      *broker.Broker
	leases map[string]unaryLease // the last of each name
	gone   context.CancelFunc    // ends the last Acquire

	mu   sync.Mutex // guards the field below
	said []func() string
}

type unaryLease struct {
	broker.OnceLease
	kind lock.Kind
}

// addCaller adds a caller that calls a replica. Those whose names begin with the same letter are one client.
func (s *scenario) addCaller(w *world, name string) {
	c := &caller{name: name, b: w.b, leases: make(map[string]unaryLease)}
	for _, o := range s.callers {
		if o.name[0] == name[0] {
			c.leases = o.leases
		}
	}
	s.callers[name] = c
}

// answer has an answer said when all are heard.
func (c *caller) answer(text func() string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.said = append(c.said, text)
}

// hear is what was answered since it was last called.
func (c *caller) hear() (texts []string) {
	c.mu.Lock()
	said := c.said
	c.said = nil
	c.mu.Unlock()
	for _, text := range said {
		texts = append(texts, c.name+" "+text())
	}
	return texts
}

// call makes a unary call.
func (s *scenario) call(c *caller, verb string, words []string) {
	switch verb {
	case "acquire":
		s.acquireOnce(c, words)
	case "extend", "release":
		holder := c
		if at := slices.Index(words, "of"); at > 0 {
			holder = s.callers[words[at+1]]
		}
		s.useOnce(c, holder.leases[words[0]], verb, words)
	case "leaves":
		c.gone()
	case "trusts":
		s.trusts(time.Until(s.until[c.leases[words[0]].hold()]), words[1])
	default:
		s.fatalf("no caller knows %s", verb)
	}
}

func (l unaryLease) hold() session.Hold {
	return session.Hold{Name: l.Name, Kind: l.kind, Holder: l.LeaseID}
}

// acquireOnce takes a lease. With "own" its caller has chosen its id, and may ask for it again.
func (s *scenario) acquireOnce(c *caller, words []string) {
	own := slices.Contains(words, "own")
	a := s.acquireRequest(slices.DeleteFunc(words, func(w string) bool { return w == "own" }))
	req := request.Once{
		Name: a.Name, Kind: a.Kind, Permits: a.Permits, Limit: a.Limit, Lease: time.Hour, Wait: a.Wait,
		Client: c.name, Peer: c.name + ":1", Annotation: a.Annotation,
	}
	if a.Lease != nil {
		req.Lease = *a.Lease
	}
	if own {
		req.LeaseID = strings.Repeat(c.name[:1]+"1_-", 6)
	}
	ctx, gone := context.WithCancel(s.t.Context())
	c.gone = gone
	go func() {
		l, refused, err := c.b.AcquireOnce(ctx, req)
		c.answer(func() string {
			switch {
			case err != nil:
				return "failed " + failureOf(err)
			case refused != nil:
				return failureOf(refused.Cause)
			}
			return s.grantedOnce(c, unaryLease{l, req.Kind})
		})
	}()
}

// grantedOnce remembers a lease. Its fence is greater than all before, but that of one that is told again.
func (s *scenario) grantedOnce(c *caller, l unaryLease) string {
	text, last := "granted "+l.Name, s.fences[l.Name]
	switch before := c.leases[l.Name]; {
	case before.LeaseID == l.LeaseID && before.Fence == l.Fence:
		text += " again"
	case l.Fence <= last && !l.kind.Shared():
		s.fatalf("%q is granted with fence %d after %d", l.Name, l.Fence, last)
	}
	s.fences[l.Name] = max(last, l.Fence)
	s.lasts(c, l)
	return text
}

// lasts notes how long a lease is said to last.
func (s *scenario) lasts(c *caller, l unaryLease) {
	if l.ValidFor <= 0 {
		s.fatalf("%q is valid for %v", l.Name, l.ValidFor)
	}
	c.leases[l.Name] = l
	s.until[l.hold()] = time.Now().Add(l.ValidFor)
}

// useOnce extends or releases a lease.
func (s *scenario) useOnce(c *caller, l unaryLease, verb string, words []string) {
	number := func(word string) (n int) {
		if at := slices.Index(words, word); at > 0 {
			n = s.number(words[at+1])
		}
		return n
	}
	if verb == "release" {
		req := request.Once{
			Name: l.Name, Kind: l.kind, LeaseID: l.LeaseID, Keep: uint32(number("keep")), //nolint:gosec // small
		}
		go func() {
			left, err := c.b.ReleaseOnce(req)
			c.answer(func() string {
				if err != nil {
					return "failed " + failureOf(err)
				}
				return strings.TrimSuffix(fmt.Sprint("released, keeps ", left), ", keeps 0")
			})
		}()
		return
	}
	req := request.Once{
		Name: l.Name, Kind: l.kind, LeaseID: l.LeaseID, Lease: s.duration(words[slices.Index(words, "lease")+1]),
		MayShorten: slices.Contains(words, "shorten"),
	}
	go func() {
		got, err := c.b.ExtendOnce(req)
		c.answer(func() string {
			switch {
			case err != nil:
				return "failed " + failureOf(err)
			case got.Fence != l.Fence && l.kind != lock.Semaphore:
				s.fatalf("its fence was %d and is %d", l.Fence, got.Fence)
			}
			got.Fence = l.Fence
			s.lasts(c, unaryLease{got, l.kind})
			return "extended"
		})
	}()
}
