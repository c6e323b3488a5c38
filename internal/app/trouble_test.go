package app

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/redistest"
)

// /readyz says what is configured wrong, and which key to look at.
func TestReadinessSaysWhatIsConfiguredWrong(t *testing.T) {
	redis := redistest.Start(t)
	must(t, redis.Client().ConfigSet(t.Context(), "requirepass", "secret").Err())
	file := certstest.Write(t, filepath.Join(t.TempDir(), "password"), []byte("wrong"))
	for name, row := range map[string]struct {
		file        string
		cause, cure string
	}{
		"wrong password": {file, "WRONGPASS", "check redis.username and redis.password_file"},
		"no password":    {"", "NOAUTH", "set redis.password_file"},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig()
			cfg.Store.Kind, cfg.Redis.Addr = config.StoreStandalone, redis.Addr
			cfg.Redis.PasswordFile = config.SecretFile(row.file)
			a, _ := start(t, cfg)
			var code int
			var body string
			for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
				code, body = get(t, a, "/readyz")
				if code == http.StatusServiceUnavailable && strings.Contains(body, row.cause) && strings.Contains(body, row.cure) {
					return
				}
			}
			t.Errorf("got %d %q, want %q and %q", code, body, row.cause, row.cure)
		})
	}
}
