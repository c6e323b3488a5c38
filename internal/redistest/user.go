package redistest

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/proctest"
)

// DocumentedUser makes the user of docs/redis-keys.md. At its end the test fails if the user was refused something.
func DocumentedUser(t testing.TB, c *redis.Client) (name, password string) {
	t.Helper()
	root, err := proctest.ModuleRoot()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "redis-keys.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(string(page), "redis-cli ACL SETUSER ")
	command, _, _ = strings.Cut(command, "```")
	words := strings.Fields(strings.NewReplacer("'", "", "\\\n", " ").Replace(command))
	if len(words) < 10 {
		t.Fatalf("got %q from docs/redis-keys.md, want the rules of a user", words)
	}
	args := []any{"ACL", "SETUSER"}
	for _, word := range words {
		args = append(args, word)
		if after, ok := strings.CutPrefix(word, ">"); ok {
			password = after
		}
	}
	if err := c.Do(t.Context(), args...).Err(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if refused, err := c.Do(context.WithoutCancel(t.Context()), "ACL", "LOG").Slice(); err != nil || len(refused) > 0 {
			t.Errorf("got %v, %v, want a user that may do all that lockd does", refused, err)
		}
	})
	return words[0], password
}
