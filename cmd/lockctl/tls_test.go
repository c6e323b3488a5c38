package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/test/harness"
)

func TestTLS(t *testing.T) {
	t.Parallel()
	authority := certstest.NewAuthority(t, "the authority")
	ca := authority.File(t)
	cert, key := authority.Issue(t, time.Hour, "lockd.test").Files(t)
	mine, myKey := authority.Issue(t, time.Hour, "me").Files(t)
	file := filepath.Join(t.TempDir(), "lockd.yaml")
	section := fmt.Sprintf("{cert_file: %s, key_file: %s, client_certs: required, client_ca_file: %s}", cert, key, ca)
	harness.Must(t, os.WriteFile(file, []byte("listen_tls: "+section+"\nadmin_tls: "+section+"\n"), 0o600))
	s := harness.StartLockdWith(t, "--config", file)

	run := func(env []string, args ...string) result {
		args = append([]string{"--addr", s.Addr, "--admin-addr", s.Admin, "--connect-timeout", "1s"}, args...)
		return callWith(t, env, args...)
	}
	flags := []string{"--cacert", ca, "--cert", mine, "--key", myKey, "--server-name", "lockd.test"}
	vars := []string{
		"LOCKD_TLS=true", "LOCKD_CACERT=" + ca, "LOCKD_CERT=" + mine, "LOCKD_KEY=" + myKey,
		"LOCKD_SERVER_NAME=lockd.test",
	}

	held := []string{"--connect-timeout", "1m", "exec", "door", "--", "echo", "held"}
	run(nil, append(flags, held...)...).want(t, 0, "held\n", "")
	run(vars, held...).want(t, 0, "held\n", "")
	host, err := os.Hostname()
	harness.Must(t, err)
	undrained := host + " was not draining\n"
	run(vars, "drain", "--undo").want(t, 0, undrained, "")
	run(append(vars, "LOCKD_SERVER_NAME=other"), "--server-name", "lockd.test", "drain", "--undo").want(t, 0,
		undrained, "")

	for want, r := range map[string]result{
		"does this server want TLS": run(nil, "status"),
		"unknown authority":         run(nil, "--tls", "--server-name", "lockd.test", "status"),
		"if the server is reached by another name, say one of these": run(
			vars, "--server-name", "other.test", "status"),
		"certificate required":          run(nil, "--cacert", ca, "--server-name", "lockd.test", "status"),
		"does this server want TLS (--": run(vars, "--tls=false", "acquire", "door", "--lease", "1s"),
	} {
		r.want(t, exitUnavailable, "", want)
	}
	for want, r := range map[string]result{
		"need each other":           run(nil, "--cert", mine, "status"),
		"authorities for TLS: open": run(nil, "--cacert", "nowhere", "exec", "door", "--", "true"),
		"must be true or false":     run([]string{"LOCKD_TLS=perhaps"}, "status"),
	} {
		r.want(t, exitUsage, "", want)
	}
}
