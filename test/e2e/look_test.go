package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/test/harness"
)

func procFile(pid int, name string) string { return fmt.Sprintf("/proc/%d/%s", pid, name) }

// gone says whether a process that need not be ours has ended; one that nobody waited for yet has.
func gone(pid int) bool {
	stat, err := os.ReadFile(procFile(pid, "stat"))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return true
	}
	_, state, ok := strings.Cut(string(stat), ") ")
	return ok && state[0] == 'Z'
}

// childOf finds the one child of a process.
func childOf(t *testing.T, parent int) (pid int) {
	t.Helper()
	harness.Until(t, "the process has a child", func() bool {
		stats, err := filepath.Glob("/proc/[0-9]*/stat")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range stats {
			text, err := os.ReadFile(path)
			if err != nil {
				continue // it has ended meanwhile
			}
			// 4711 (name) S 4710 ...
			_, rest, _ := strings.Cut(string(text), ") ")
			if fields := strings.Fields(rest); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
				pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(path)))
			}
		}
		return pid != 0
	})
	return pid
}

// sight is a lock as Redis had it at some moment between two times.
type sight struct {
	from, to time.Time
	fields   map[string]string
	pttl     time.Duration // negative as in Redis
}

func look(t *testing.T, c *redis.Client, name string) sight {
	t.Helper()
	s := sight{from: time.Now()}
	var fields *redis.MapStringStringCmd
	var pttl *redis.DurationCmd
	_, err := c.TxPipelined(t.Context(), func(p redis.Pipeliner) error {
		fields, pttl = p.HGetAll(t.Context(), name), p.PTTL(t.Context(), name)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	s.to, s.fields, s.pttl = time.Now(), fields.Val(), pttl.Val()
	return s
}

// owner is the one field, "" if there is none.
func (s sight) owner() string {
	for field := range s.fields {
		return field
	}
	return ""
}

// hear subscribes to a channel and returns its messages with the time of their arrival, from now on.
func hear(t *testing.T, c *redis.Client, channel string) <-chan heard {
	t.Helper()
	ps := c.Subscribe(t.Context(), channel)
	t.Cleanup(func() { _ = ps.Close() })
	if _, err := ps.Receive(t.Context()); err != nil {
		t.Fatal(err)
	}
	messages := make(chan heard, 1000)
	go func() {
		for m := range ps.Channel() {
			messages <- heard{m.Payload, time.Now()}
		}
	}()
	return messages
}

type heard struct {
	text string
	at   time.Time
}

// keys are all that Redis has but the last fences of names and the id of its data.
func keys(t *testing.T, c *redis.Client) (found []string) {
	t.Helper()
	all, err := c.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range all {
		if !strings.HasPrefix(key, "redisson_lock_token:{") && !strings.HasPrefix(key, "lockd:") {
			found = append(found, key)
		}
	}
	return found
}
