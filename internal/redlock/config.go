package redlock

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Config says how a majority is formed. A zero field is its default.
type Config struct {
	// Names of the members in logs and metrics, in the order of the members. Default "0", "1" and so on.
	Names []string
	// NodeTimeout is how long the other members may still answer when a majority has said yes or no and that decides
	// nothing. Default 250 ms. It does not bound members that are far away: nothing is decided before a majority answers.
	NodeTimeout time.Duration
	// CallTimeout bounds calls for which members have no bound of their own. Default 5 s.
	CallTimeout time.Duration
	// Quarantine is for how long a member that may have lost its data does not vote for new holds. It must be at least
	// the longest lease there can be. 0 switches it off.
	Quarantine time.Duration

	// fewPause is for tests. Default: the constant.
	fewPause time.Duration
}

const (
	defaultNodeTimeout = 250 * time.Millisecond
	defaultCallTimeout = 5 * time.Second
	// maxMembers is how many bits of a set there are.
	maxMembers = 32
)

func (c Config) withDefaults(members int) (Config, error) {
	if members == 0 || members > maxMembers {
		return c, fmt.Errorf("redlock: %d members, want 1 to %d", members, maxMembers)
	}
	if c.Names == nil {
		for i := range members {
			c.Names = append(c.Names, fmt.Sprint(i))
		}
	}
	if len(c.Names) != members {
		return c, errors.New("redlock: each member needs a name")
	}
	c.NodeTimeout = cmp.Or(c.NodeTimeout, defaultNodeTimeout)
	c.CallTimeout = cmp.Or(c.CallTimeout, defaultCallTimeout)
	c.fewPause = cmp.Or(c.fewPause, fewPause)
	return c, nil
}

// drifted is the TTL for members, so that a lease lasts for ttl by our clock even if theirs run 1 % faster.
func (s *Store) drifted(ttl time.Duration) time.Duration {
	if ttl <= 0 {
		return ttl
	}
	return ttl + lock.Drift(ttl)
}

// trusted is how long a lease lasts by our clock at least if it lasts for left by a member's: the reverse of drifted.
func trusted(left time.Duration) time.Duration {
	if left < 0 { // NoTTL
		return left
	}
	return max(0, (left-2*time.Millisecond)*100/101)
}
