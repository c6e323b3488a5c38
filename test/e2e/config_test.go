package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

func writeConfig(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockd.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestFlagsOverrideVariablesWhichOverrideTheFile(t *testing.T) {
	t.Parallel()
	rs := redistest.Start(t)
	file := writeConfig(t, `
listen: 127.0.0.1:0
ops_listen: 127.0.0.1:1
replica: of the file
store: {kind: standalone}
redis: {addr: "127.0.0.1:1"}
session: {ttl: 4s, max_ttl: 1m}
limits: {name_bytes: 100, holder_bytes: 50}
log: {level: error, format: console}
`)
	p := proctest.Start(t, lockdBin, []string{
		"LOCKD_REDIS_ADDR=127.0.0.1:2", "LOCKD_OPS_LISTEN=127.0.0.1:2", "LOCKD_LOG_LEVEL=warn", "LOCKD_LOG_FORMAT=json",
		"LOCKD_SESSION_TTL=5s", "LOCKD_LIMITS_HOLDER_BYTES=60",
	}, "--config", file, "--redis", rs.Addr, "--ops-listen", "127.0.0.1:0", "--admin-listen", "", "--log-level", "info")
	d := harness.AwaitLockd(t, p) // which needs a line that only a level below warn shows, and Redis

	c := raw(t, d.Connect(t))
	c.send(openWith(&lockdv1.Open{}))
	o := c.recv().GetOpened()
	got := fmt.Sprint(o.GetReplica(), ", ", o.GetSessionTtl().AsDuration(), ", ", o.GetLimits().GetNameBytes(), ", ",
		o.GetLimits().GetHolderBytes(), ", ", o.GetLimits().GetAnnotationBytes())
	if want := "of the file, 5s, 100, 60, 4096"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestAWrongConfigurationIsRefusedWithAllItsFaults(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, `
sesion: {ttl: 3s}
session: {ttl: 1h}
store: {kind: redis}
limits: {name_bytes: 0}
shutdown: {drain_window: 30s}
`)
	env := []string{"LOCKD_LISTEN=nowhere", "LOCKD_SESION_TTL=3s", "LOCKD_GRPC_KEEPALIVE_TIME=soon"}
	rows := map[string]struct {
		env, args []string
		code      int
		wants     []string
	}{
		"unknown keys first": {
			env,
			[]string{"--config", file, "--log-level", "loud"},
			78,
			[]string{"sesion", "LOCKD_SESION_TTL", "grpc.keepalive_time"},
		},
		"values": {
			env[:1],
			[]string{
				"--config", writeConfig(t, "session: {ttl: 1h}\nlimits: {name_bytes: 0}\nshutdown: {drain_window: 30s}\n"),
				"--log-level", "loud",
			},
			78,
			[]string{"session.ttl", "limits.name_bytes", "shutdown.timeout", "listen:", "log.level"},
		},
		"a file to check": {nil, []string{"--check-config", file}, 78, []string{"sesion"}},
		"no such file":    {nil, []string{"--config", file + ".none"}, 78, []string{"no such file"}},
		"no such flag":    {nil, []string{"--no-such-flag"}, 2, []string{"no-such-flag"}},
		"a word":          {nil, []string{"serve"}, 2, []string{"serve"}},
		"an address in use?": {
			nil,
			[]string{"--listen", "192.0.2.1:1", "--ops-listen", "", "--admin-listen", ""},
			1,
			[]string{"192.0.2.1:1"},
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			p := proctest.Start(t, lockdBin, row.env, row.args...)
			code := p.Code()
			log := p.Stderr.String()
			if code != row.code {
				t.Errorf("got exit code %d, want %d", code, row.code)
			}
			for _, want := range row.wants {
				if !strings.Contains(log, want) {
					t.Errorf("nothing is said of %q in: %s", want, log)
				}
			}
		})
	}
}
