package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/topology"
	"github.com/lockd-io/lockd/test/harness"
)

const annotated = "../../configs/lockd.yaml"

func TestTheAnnotatedFileHasTheDefaults(t *testing.T) {
	c, err := Load(mustParse(t, "--config", annotated))
	must(t, err)
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("%s differs from the defaults:\ngot  %+v\nwant %+v", annotated, c, Default())
	}
}

func TestTheAnnotatedFileHasEveryKey(t *testing.T) {
	b, err := os.ReadFile(annotated)
	must(t, err)
	for _, k := range keysOf(new(Config)) {
		last := k.name[strings.LastIndex(k.name, ".")+1:]
		if !regexp.MustCompile(`(?m)^ *` + last + `:`).Match(b) {
			t.Errorf("%s lacks %s", annotated, k.name)
		}
	}
}

// A default or a bound that cannot be read would be none.
func TestEveryTagCanBeRead(t *testing.T) {
	for _, k := range keysOf(new(Config)) {
		for _, tag := range []string{"default", "min", "max"} {
			if text, ok := k.tag.Lookup(tag); ok {
				if err := k.set(text); err != nil {
					t.Errorf("the %s of %s %v", tag, k.name, err)
				}
			}
		}
	}
}

func TestNothingGivenIsTheDefaults(t *testing.T) {
	if got, err := Load(mustParse(t)); err != nil || !reflect.DeepEqual(got, Default()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestPrecedence(t *testing.T) {
	file := "listen: ':1'\nops_listen: ':2'\nlog: {level: warn}\nsession: {ttl: 20s}\n"
	env := []string{"LOCKD_OPS_LISTEN=:3", "LOCKD_LOG_LEVEL=error", "LOCKD_GRPC_REFLECTION=false", "LOCKD_REPLICA="}

	got, err := load(t, file, env, "--log-level", "debug")
	must(t, err)
	want := Default()
	want.Listen = ":1"                  // file over default
	want.OpsListen = ":3"               // variable over file
	want.Log.Level = "debug"            // flag over variable
	want.Session.TTL = 20 * time.Second // file over default, in a section
	want.GRPC.Reflection = false        // variable over default
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestEveryKeyCanBeSetByItsVariable(t *testing.T) {
	seen := map[string]string{}
	for _, k := range keysOf(new(Config)) {
		name := "LOCKD_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
		if other, ok := seen[name]; ok {
			t.Errorf("%s and %s are both %s", k.name, other, name)
		}
		seen[name] = k.name
		text := map[reflect.Kind]string{reflect.Int: "9", reflect.Int64: "9m", reflect.Bool: "true"}[k.field.Kind()]
		if text == "" {
			text = "nine"
		}
		if k.name == "grpc.reflection" {
			text = "false"
		}
		t.Setenv(name, text)
		got, err := Load(mustParse(t)) // that may be no address, but it is read
		if reflect.DeepEqual(got, Default()) || err != nil && strings.Contains(err.Error(), "(environment)") {
			t.Errorf("%s is not read: %v", name, err)
		}
		_ = os.Unsetenv(name)
	}
}

// What is required has to be there only where others come, and tokens need no certificates.
func TestSecurityIsRequiredWhereOthersCome(t *testing.T) {
	const required = "security: {require: true, clients_file: c, audit: a}\n"
	for _, row := range []struct{ file, flags string }{
		{"", "--listen 127.0.0.1:1 --admin-listen localhost:2"},
		{"", "--listen unix:/run/a --admin-listen [::1]:2"},
		{"admin_listen: ''\nlisten_tls: {cert_file: f, key_file: g}", "--listen 0.0.0.0:1"},
	} {
		if _, err := load(t, required+row.file, nil, strings.Fields(row.flags)...); err != nil {
			t.Errorf("%s %s: %v", row.file, row.flags, err)
		}
	}
}

func TestOnlyTheValueThatCountsIsRead(t *testing.T) {
	got, err := load(t, "session: {ttl: soon}\nlisten: nowhere",
		[]string{"LOCKD_SESSION_TTL=20s", "LOCKD_LISTEN=no:where"}, "--listen", ":1")
	if err != nil || got.Session.TTL != 20*time.Second || got.Listen != ":1" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for _, row := range [][]string{ // a file, variables and flags, and what the error has
		{"session: {tll: 3s}", "", "session.tll: "},
		{"sessions: 5", "", "did you mean limits.sessions?"},
		{"session: {ttl: [a]}", "LOCKD_SESSION_TTL=20s", "session.ttl: must be one value"},
		{"log: {level: {}}", "--log-level info", "log.level: must be one value"},
		{"Session: {ttl: [a]}\nsession: {ttl: 20s}", "", "session.ttl: must be one value"},
		{"session: {ttl: !!binary NXM=}", "", `is "NXM="`},
		{"", "LOCKD_SESION_TTL=3s", "LOCKD_SESION_TTL: "},
		{"session: 3s", "", "session: "},
		{"listen: [':1', ':2']", "", "listen"},
		{"", "LOCKD_SESSION_TTL=30", "session.ttl", "unit"},
		{"limits: {locks_per_session: 1.5}", "", "limits.locks_per_session", "whole"},
		{"limits: {names_per_acquire: 0}", "", "limits.names_per_acquire"},
		{"", "LOCKD_LIMITS_SESSIONS=many", "limits.sessions"},
		{"listen: [", "", "yaml"},
		{"session: {ttl: 3s}\nsession: {min_ttl: 2s}", "", `"session" already defined at line 1`},
		{"listen: ':1'\nlisten: ':2'\n", "", "already defined"},
		{"", "--listen 0.0.0.0:7421", "ops_listen: "},
		{"", "--admin-listen 127.0.0.1:7420", "admin_listen: ", "of listen"},
		{"", "--admin-listen :7421", "admin_listen: ", "ops_listen"},
		{"", "--http-listen :7420", "http_listen: ", "of listen"},
		{"", "--http-listen 7423", "http_listen: "},
		{"", "--admin-listen localhost", "admin_listen: "},
		{"", "--listen localhost", "listen: "},
		{"", "--listen unix:lockd.sock", "listen: "},
		{"", "--listen unix:/run/a --admin-listen unix:/run/a", "admin_listen: ", "of listen"},
		{"session: {ttl: 11m}", "", "session.ttl: "},
		{"redis: {addr: 'r:6379'}", "", "redis.addr: is only for store.kind standalone, which is memory"},
		{"store: {kind: standalone}", "", "redis.addr: "},
		{"", "--redis cache", "redis.addr: "},
		{"redis: {prefix: '{a}'}", "--redis r:1", "redis.prefix: "},
		{"store: {kind: sentinel}", "", "redis.sentinel.master: is needed", "redis.sentinel.addrs: is needed"},
		{"", "--redis sentinel://locks@a:1,b", "redis.sentinel.addrs: ", "word 2"},
		{"", "--redis sentinel://locks@a:1,b:2,a:1", "redis.sentinel.addrs: lists a server twice: word 3"},
		{"", "--redis sentinel://locks@redis://a:1", "redis.sentinel.addrs: "},
		{"", "--redis sentinel://a:1", "redis.sentinel.addrs: is needed"},
		{
			"store: {kind: sentinel}\nredis: {sentinel: {master: a b, addrs: 'a:1'}}", "",
			"redis.sentinel.master: is",
		},
		{
			"redis: {sentinel: {addrs: ['a:1']}}", "--redis r:1",
			"redis.sentinel.addrs: is only for store.kind sentinel, which is standalone",
		},
		{
			"redis: {addr: 'r:1'}", "--redis sentinel://m@a:1",
			"redis.addr: is only for store.kind standalone, which is sentinel",
		},
		{"redis: {sentinel: {master: m}}", "", "redis.sentinel.master: is only for"},
		{"redis: {tls: {ca_file: f}}", "--redis sentinel://m@a:1", "redis.tls.enabled: "},
		{"redis: {prefix: '{a}'}", "--redis sentinel://m@a:1", "redis.prefix: "},
		{"admin_tls: {key_file: f}", "", "admin_tls.cert_file: and admin_tls.key_file need each other"},
		{
			"ops_listen: ''\nops_tls: {cert_file: f, key_file: g}", "",
			"ops_tls.cert_file: is set, but nothing is served there",
		},
		{
			"listen_tls: {cert_file: f, key_file: g, client_certs: required}", "",
			"listen_tls.client_ca_file: is needed",
		},
		{"listen_tls: {cert_file: f, key_file: g, client_ca_file: h}", "", "listen_tls.client_ca_file: is needed"},
		{"listen_tls: {client_certs: optional, client_ca_file: h}", "", "listen_tls.client_certs: is"},
		{
			"listen_tls: {min_version: 1.1, client_certs: always}", "",
			"listen_tls.min_version: ", "listen_tls.client_certs: ",
		},
		{"security: {audit: stdout}", "", "security.audit: is \"stdout\", but there is no security.clients_file"},
		{
			"security: {require: true}", "--listen 10.0.0.1:7420 --admin-listen lockd.test:7422",
			"security.clients_file: is needed when",
			"listen_tls.cert_file: is needed when", "admin_tls.cert_file: is needed when",
		},
		{"console_listen: ':7423'", "", "console_listen: is \":7423\", must be an address of this machine only"},
		{
			"security: {require: true, clients_file: f}", "--console-listen 10.0.0.1:7423 --listen localhost:1",
			"console_tls.cert_file: is needed when",
		},
		{"console: {path: locks/}", "", "console.path: is"},
		{"store: {kind: cluster}", "", "redis.cluster.addrs: is needed"},
		{"", "--redis cluster://a:1,b", "redis.cluster.addrs: ", "word 2"},
		{"redis: {db: 1}", "--redis cluster://a:1", "redis.db: must not name a database"},
		{
			"store: {kind: redlock}", "",
			"redlock.members: is needed", "redlock.members: lists 0 servers, must list 3",
		},
		{"", "--redlock a:1,b:1", "redlock.members: lists 2 servers"},
		{"", "--redlock a:1,b:1,a:1", "redlock.members: lists a server twice: word 3"},
		{"", "--redlock a:1,b:1,c", "redlock.members: word 3 must be HOST:PORT"},
		{"", "--redlock a:1,b:1,redis://u:secret@c:1", "redlock.members: word 3 must not contain a password"},
		{
			"store: {kind: redlock}\nredlock: {members: ['a:1', 'b:1', 'sentinel://c:1']}", "",
			"redlock.members: word 3 must be",
		},
		{"store: {kind: redlock}\nredlock: {members: ['a:1', 'b:1', 'cluster://']}", "", "redlock.members: "},
		{
			"redlock: {members: ['a:1']}", "--redis r:1",
			"redlock.members: is only for store.kind redlock, which is standalone",
		},
		{"redlock: {members: ['a:1']}", "", "redlock"},
		{
			"redis: {sentinel: {addrs: [[a]]}}", "",
			"redis.sentinel.addrs: must be one value, or a list of words where words are asked for (line 1)",
		},
		{"redis: {sentinel: {addrs: {a: 1}}}", "", "redis.sentinel.addrs.a: "},
		{
			"redlock: {members: ['a:1', 'b:1', 'c:1', ~]}", "",
			"redlock.members: must be one value, or a list of words",
		},
		{"", "--redis redis://h/-1", "must be HOST:PORT"},
		{"redis: {prefix: p}", "", "redis: is configured, but store.kind is memory"},
		{
			"redis: {sentinel: {username: u}}", "--redis r:1",
			"redis.sentinel: is only for store.kind sentinel and redlock, which is standalone",
		},
		{"log:\n  levl: info", "", "log.levl: there is no such key (line 2); did you mean log.level?"},
		{"fence_ttl: 1h", "", "did you mean redis.fence_ttl?"},
		{"clients: [{name: a}]", "", "this looks like a clients file: LOCKD_SECURITY_CLIENTS_FILE=FILE lockd"},
		{"", "LOCKD_REDIS_PASSWORD=x", "did you mean LOCKD_REDIS_PASSWORD_FILE?"},
		{
			"sesion: {}\nlimit:\n", "",
			"sesion: there is no such key (line 1); did you mean session?", "limit: there is no such key (line 2)",
		},
		{"\nsession: 3s", "", "session: is a section: its keys stand below it (line 2)"},
		{"redis: {tls: [a]}", "", "redis.tls: is a section"},
		{"console:\n  hosts:\n  - a\n  - ~", "", "console.hosts: must be one value", "(line 2)"},
		{"session:\n  ttl: &a x\nlimits:\n  max_lease: *a", "", "(line 2)", `limits.max_lease: is "x"`, "(line 4)"},
		{"", "LOCKD_SESSION=3s", "LOCKD_SESSION: there is no such key"},
		{"\n\nsession: {ttl: 30}", "", `session.ttl: is "30", must be`, "unit", "(line 3)"},
		{"limits: {sessions: 0}", "", "limits.sessions: is 0, must be at least 1"},
		{"", "--log-level loud", `is "loud", must be one of debug, info, warn, error`},
		{"store: {kind: redis}", "", "store.kind: ", "must be one of memory, standalone, sentinel, cluster, redlock"},
		{"- listen", "", "line 1"},
		{"a: &a {b: *a}", "", "contains itself"},
		{"limits: {max_lease: 1700000h}\nredis: {fence_ttl: 2500000h}", "--redis r:1", "redis.fence_ttl"},
		{"limits: {name_bytes: 9223372036854775807, holder_bytes: 9223372036854775807}", "", "limits.frame_bytes"},
		{
			"sesion: {ttl: 3s}\nsession: {ttl: x}\nlimits: {sessions: 0}\nshutdown: {timeout: 1s}\n",
			"LOCKD_OOPS=1 LOCKD_LOG_FORMAT=xml --listen nowhere",
			"sesion.ttl: ", "session.ttl", "limits.sessions", "shutdown.timeout", "LOCKD_OOPS", "log.format", "listen",
		},
	} {
		var env, args []string
		for word := range strings.FieldsSeq(row[1]) {
			if strings.HasPrefix(word, "LOCKD_") {
				env = append(env, word)
			} else {
				args = append(args, word)
			}
		}
		_, err := load(t, row[0], env, args...)
		for _, want := range row[2:] {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%q %s: the error does not mention %q:\n%v", row[0], row[1], want, err)
			}
		}
	}
}

func TestForeignVariablesAreIgnored(t *testing.T) {
	env := []string{
		"PATH=/bin", "LOCKDX=1",
		"LOCKD_SERVICE_HOST=10.0.0.1", "LOCKD_SERVICE_PORT=7420", "LOCKD_SERVICE_PORT_GRPC=7420",
		"LOCKD_PORT=tcp://10.0.0.1:7420", "LOCKD_PORT_7420_TCP=tcp://10.0.0.1:7420",
		"LOCKD_PORT_7420_TCP_PROTO=tcp", "LOCKD_PORT_7420_TCP_PORT=7420", "LOCKD_PORT_7420_TCP_ADDR=10.0.0.1",
		"LOCKD_OPS_SERVICE_HOST=10.0.0.2", "LOCKD_OPS_PORT_7421_TCP_ADDR=10.0.0.2",
	}
	if got, err := load(t, "", env); err != nil || !reflect.DeepEqual(got, Default()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// A shell has variables of clients that lockd, started there, must not take for keys of its own.
func TestVariablesOfClientsAreNotKeys(t *testing.T) {
	found := map[string]bool{}
	for _, dir := range []string{"../../cmd/lockctl", "../../client"} {
		files, err := filepath.Glob(dir + "/*.go")
		must(t, err)
		for _, file := range files {
			source, err := os.ReadFile(file)
			must(t, err)
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range regexp.MustCompile(`"(LOCKD_[A-Z_]+)=?"`).FindAllStringSubmatch(string(source), -1) {
				found[m[1]] = true
			}
		}
	}
	if len(found) < 10 {
		t.Fatalf("found only %v", found)
	}
	for name := range found {
		if got, err := load(t, "", []string{name + "=x"}); err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestNullIsTheDefault(t *testing.T) {
	for _, file := range []string{"listen:\nsession: {ttl: }\n", "session:\nredis: {tls: {}}\n", "# nothing\n", "~"} {
		if got, err := load(t, file, nil); err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%q: got %+v, %v", file, got, err)
		}
	}
}

func TestASectionCanBeSaidOnce(t *testing.T) {
	got, err := load(t, "listen_tls: &tls {cert_file: &f f, key_file: *f}\nadmin_tls: *tls\n", nil)
	want := Default()
	want.ListenTLS.CertFile, want.ListenTLS.KeyFile = "f", "f"
	want.AdminTLS = want.ListenTLS
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

func TestArgs(t *testing.T) {
	if a := mustParse(t, "--check-config", "f"); !a.Check || a.File != "f" {
		t.Errorf("got %+v", a)
	}
	for _, args := range [][]string{
		{"--nonsense"},
		{"word"},
		{"--config", "a", "--check-config", "b"},
		{"--redis", "r:1", "--redlock", "a:1,b:1,c:1"},
	} {
		if _, err := ParseArgs(args); err == nil {
			t.Errorf("%q accepted", args)
		}
	}
}

func TestEachFlagSetsItsKey(t *testing.T) {
	want := Default()
	want.Listen, want.OpsListen, want.AdminListen = ":1", ":2", ":3"
	want.Store.Kind, want.Redis.Addr = topology.Standalone, "r:4"
	want.Log.Level, want.Log.Format = "warn", "json"
	got, err := load(t, "", nil, "--listen=:1", "--ops-listen=:2", "--admin-listen=:3", "--redis=r:4",
		"--log-level=warn", "--log-format=json")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
}

// FuzzLoad feeds files: whatever is in one, Load returns an error or a valid Config. It is valid if nothing is wrong
// with it when each of its keys is set once more, by its variable.
func FuzzLoad(f *testing.F) {
	b, err := os.ReadFile(annotated)
	must(f, err)
	f.Add(string(b))
	for _, s := range []string{
		"", "session: {ttl: 30}", "listen:", "a: &a [*a]", "a: &a {b: *a}", "session: &a {ttl: *a}", "session.ttl: 3s",
		"redis: {tls: 5}", "- x", "!!int x: 3", "a: &a {x: 1}\nb: *a", "? {a: b}\n: c", "<<: {listen: ':1'}",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, file string) {
		c, err := load(t, file, nil)
		if err != nil {
			return
		}
		var env []string
		for _, k := range keysOf(&c) {
			env = append(env, fmt.Sprint(k.variable(), "=", textOf(k)))
		}
		if again, err := load(t, file, env); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("accepted an invalid configuration: got %+v, %v, want %+v", again, err, c)
		}
	})
}

// textOf is what a key is set to, also if it is secret.
func textOf(k key) any {
	if k.field.Kind() == reflect.Slice {
		return strings.Join(k.field.Interface().([]string), ",")
	}
	if k.field.Kind() == reflect.String {
		return k.field.String()
	}
	return k.field.Interface()
}

// load loads what a file, variables and a command line say.
func load(t *testing.T, file string, env []string, args ...string) (Config, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "lockd.yaml")
	must(t, os.WriteFile(path, []byte(file), 0o600))
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		t.Setenv(name, value)
		defer func() { _ = os.Unsetenv(name) }()
	}
	return Load(mustParse(t, append(args, "--config", path)...))
}

func mustParse(t *testing.T, args ...string) Args {
	t.Helper()
	a, err := ParseArgs(args)
	must(t, err)
	return a
}

var must = harness.Must // ends the test at an error
