package e2e

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
)

// loadOn begins to count for us, a Redis and some servers.
func loadOn(t *testing.T, rc *redis.Client, ds ...*lockd) *proctest.Load {
	t.Helper()
	pids := []int{redistest.PID(t, rc)}
	for _, d := range ds {
		pids = append(pids, d.pid())
	}
	return proctest.LoadOn(pids...)
}
