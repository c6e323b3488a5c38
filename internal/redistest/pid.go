package redistest

import (
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
)

// PID is the process that answers a client.
func PID(t testing.TB, c *redis.Client) int {
	t.Helper()
	info, err := c.Info(t.Context(), "server").Result()
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(infoField(info, "process_id"))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
