package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const annotated = "../../configs/lockd.yaml"

func TestTheAnnotatedFileHasTheDefaults(t *testing.T) {
	c, err := Load(mustParse(t, "--config", annotated))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(c, Default()) {
		t.Errorf("%s differs from the defaults:\ngot  %+v\nwant %+v", annotated, c, Default())
	}
}

func TestTheAnnotatedFileHasEveryKey(t *testing.T) {
	b, err := os.ReadFile(annotated)
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range settable() {
		last := k.name[strings.LastIndex(k.name, ".")+1:]
		if !regexp.MustCompile(`(?m)^ *` + last + `:`).Match(b) {
			t.Errorf("%s lacks %s", annotated, k.name)
		}
	}
}

func TestNothingGivenIsTheDefaults(t *testing.T) {
	if got, err := Load(mustParse(t)); err != nil || !reflect.DeepEqual(got, Default()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

// settable are all keys without their sections.
func settable() []key {
	var c Config
	return slices.DeleteFunc(keysOf(&c), key.isSection)
}

func TestPrecedence(t *testing.T) {
	file := "listen: ':1'\nops_listen: ':2'\nlog: {level: warn}\nsession: {ttl: 20s}\n"
	env := []string{"LOCKD_OPS_LISTEN=:3", "LOCKD_LOG_LEVEL=error", "LOCKD_GRPC_REFLECTION=false", "LOCKD_REPLICA="}

	got, err := load(t, file, env, "--log-level", "debug")
	if err != nil {
		t.Fatal(err)
	}
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
	for _, k := range settable() {
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
		if got, found := read(mustParse(t)); reflect.DeepEqual(got, Default()) || len(found) > 0 {
			t.Errorf("%s is not read: %v", name, found)
		}
		_ = os.Unsetenv(name)
	}
}

func TestOnlyTheValueThatCountsIsRead(t *testing.T) {
	got, err := load(t, "session: {ttl: soon}\nlisten: nowhere",
		[]string{"LOCKD_SESSION_TTL=20s", "LOCKD_LISTEN=no:where"}, "--listen", ":1")
	if err != nil || got.Session.TTL != 20*time.Second || got.Listen != ":1" {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestRedisFlagTurnsTheStoreOn(t *testing.T) {
	got, err := load(t, "store: {kind: memory}", nil, "--redis", "cache:6379")
	if err != nil {
		t.Fatal(err)
	}
	if got.Store.Kind != StoreStandalone || got.Redis.Addr != "cache:6379" {
		t.Errorf("got %+v %+v", got.Store, got.Redis)
	}
}

func ok(t *testing.T, so bool) {
	t.Helper()
	if !so {
		t.Error("a member is read wrongly")
	}
}

func TestLoadRefuses(t *testing.T) {
	rows := map[string]struct {
		file string
		env  []string
		args []string
		want []string // each is in the error
	}{
		"a typo":                  {file: "sesion: {ttl: 3s}", want: []string{"sesion.ttl: "}},
		"a typo in a section":     {file: "session: {tll: 3s}", want: []string{"session.tll: "}},
		"an unknown variable":     {env: []string{"LOCKD_SESION_TTL=3s"}, want: []string{"LOCKD_SESION_TTL: "}},
		"a value for a section":   {file: "session: 3s", want: []string{"session: "}},
		"a list for a value":      {file: "listen: [':1', ':2']", want: []string{"listen"}},
		"a duration without unit": {file: "session: {ttl: 30}", want: []string{"session.ttl", "unit"}},
		"a variable without unit": {env: []string{"LOCKD_SESSION_TTL=30"}, want: []string{"session.ttl", "unit"}},
		"half a lock": {
			file: "limits: {locks_per_session: 1.5}",
			want: []string{"limits.locks_per_session", "whole"},
		},
		"no name for a request": {file: "limits: {names_per_acquire: 0}", want: []string{"limits.names_per_acquire"}},
		"a word for a count":    {env: []string{"LOCKD_LIMITS_SESSIONS=many"}, want: []string{"limits.sessions"}},
		"no YAML":               {file: "listen: [", want: []string{"yaml"}},
		"two sections of a name": {
			file: "session: {ttl: 3s}\nsession: {min_ttl: 2s}",
			want: []string{"\"session\" already defined at line 1"},
		},
		"two keys of a name":  {file: "listen: ':1'\nlisten: ':2'\n", want: []string{"already defined"}},
		"one address for two": {args: []string{"--listen", "0.0.0.0:7421"}, want: []string{"ops_listen: "}},
		"operators among clients": {
			args: []string{"--admin-listen", "127.0.0.1:7420"},
			want: []string{"admin_listen: ", "of listen"},
		},
		"operators among probes": {
			args: []string{"--admin-listen", ":7421"},
			want: []string{"admin_listen: ", "ops_listen"},
		},
		"no port for operators": {args: []string{"--admin-listen", "localhost"}, want: []string{"admin_listen: "}},
		"no port":               {args: []string{"--listen", "localhost"}, want: []string{"listen: "}},
		"ttl beyond max":        {file: "session: {ttl: 11m}", want: []string{"session.ttl: "}},
		"redis unused": {
			file: "redis: {addr: 'r:6379'}",
			want: []string{"redis.addr: is only for store.kind standalone, which is memory"},
		},
		"redis missing":      {file: "store: {kind: standalone}", want: []string{"redis.addr: "}},
		"redis without port": {args: []string{"--redis", "cache"}, want: []string{"redis.addr: "}},
		"braces in a prefix": {
			file: "redis: {prefix: '{a}'}", args: []string{"--redis", "r:1"},
			want: []string{"redis.prefix: "},
		},
		"no sentinels": {
			file: "store: {kind: sentinel}",
			want: []string{"redis.sentinel.master: is needed", "redis.sentinel.addrs: is needed"},
		},
		"a sentinel without port": {
			args: []string{"--redis-sentinel", "locks@a:1,b"},
			want: []string{"redis.sentinel.addrs: ", "word 2"},
		},
		"a sentinel twice": {
			args: []string{"--redis-sentinel", "locks@a:1,b:2,a:1"},
			want: []string{"redis.sentinel.addrs: lists a server twice: word 3"},
		},
		"a URL of a sentinel": {
			args: []string{"--redis-sentinel", "locks@redis://a:1"},
			want: []string{"redis.sentinel.addrs: "},
		},
		"two words for a master": {
			file: "redis: {sentinel: {master: a b}}", args: []string{"--redis-sentinel", "a b@a:1"},
			want: []string{"redis.sentinel.master: "},
		},
		"sentinels unused": {
			file: "redis: {sentinel: {addrs: ['a:1']}}", args: []string{"--redis", "r:1"},
			want: []string{"redis.sentinel.addrs: is only for store.kind sentinel, which is standalone"},
		},
		"an address unused": {
			file: "redis: {addr: 'r:1'}", args: []string{"--redis-sentinel", "m@a:1"},
			want: []string{"redis.addr: is only for store.kind standalone, which is sentinel"},
		},
		"sentinels and no store": {
			file: "redis: {sentinel: {master: m}}",
			want: []string{"redis.sentinel.master: is only for"},
		},
		"TLS half off": {
			file: "redis: {tls: {ca_file: f}}", args: []string{"--redis-sentinel", "m@a:1"},
			want: []string{"redis.tls.enabled: "},
		},
		"no prefix of sentinels": {
			file: "redis: {prefix: '{a}'}", args: []string{"--redis-sentinel", "m@a:1"},
			want: []string{"redis.prefix: "},
		},
		"half of a certificate": {
			file: "admin_tls: {key_file: f}",
			want: []string{"admin_tls.cert_file: and admin_tls.key_file need each other"},
		},
		"a certificate nowhere": {
			file: "ops_listen: ''\nops_tls: {cert_file: f, key_file: g}",
			want: []string{"ops_tls.cert_file: is set, but nothing is served there"},
		},
		"no authorities": {
			file: "listen_tls: {cert_file: f, key_file: g, client_certs: required}",
			want: []string{"listen_tls.client_ca_file: is needed"},
		},
		"authorities unused": {
			file: "listen_tls: {cert_file: f, key_file: g, client_ca_file: h}",
			want: []string{"listen_tls.client_ca_file: is needed"},
		},
		"clients asked in vain": {
			file: "listen_tls: {client_certs: optional, client_ca_file: h}",
			want: []string{"listen_tls.client_certs: is"},
		},
		"an old version of TLS": {
			file: "listen_tls: {min_version: 1.1, client_certs: always}",
			want: []string{"listen_tls.min_version: ", "listen_tls.client_certs: "},
		},
		"no nodes": {file: "store: {kind: cluster}", want: []string{"redis.cluster.addrs: is needed"}},
		"a node without port": {
			args: []string{"--redis-cluster", "a:1,b"},
			want: []string{"redis.cluster.addrs: ", "word 2"},
		},
		"a database of a cluster": {
			file: "redis: {db: 1}", args: []string{"--redis-cluster", "a:1"},
			want: []string{"redis.db: must not name a database"},
		},
		"no members": {
			file: "store: {kind: redlock}",
			want: []string{"redlock.members: is needed", "redlock.members: lists 0 servers, must list 3"},
		},
		"two members": {
			args: []string{"--redlock", "a:1,b:1"},
			want: []string{"redlock.members: lists 2 servers"},
		},
		"a member twice": {
			args: []string{"--redlock", "a:1,b:1,a:1"},
			want: []string{"redlock.members: lists a server twice: word 3"},
		},
		"a member without port": {
			args: []string{"--redlock", "a:1,b:1,c"},
			want: []string{"redlock.members: word 3 must be HOST:PORT"},
		},
		"a member with password": {
			args: []string{"--redlock", "a:1,b:1,redis://u:secret@c:1"},
			want: []string{"redlock.members: word 3 must not contain a password"},
		},
		"a member without master": {
			file: "store: {kind: redlock}\nredlock: {members: ['a:1', 'b:1', 'sentinel://c:1']}",
			want: []string{"redlock.members: word 3 must be"},
		},
		"a cluster without nodes": {
			file: "store: {kind: redlock}\nredlock: {members: ['a:1', 'b:1', 'cluster://']}",
			want: []string{"redlock.members: "},
		},
		"members unused": {
			file: "redlock: {members: ['a:1']}", args: []string{"--redis", "r:1"},
			want: []string{"redlock.members: is only for store.kind redlock, which is standalone"},
		},
		"members and no store": {file: "redlock: {members: ['a:1']}", want: []string{"redlock"}},
		"a list of lists": {
			file: "redis: {sentinel: {addrs: [[a]]}}",
			want: []string{"redis.sentinel.addrs: must be one value, or a list of words where words are asked for (line 1)"},
		},
		"a section for a list": {file: "redis: {sentinel: {addrs: {a: 1}}}", want: []string{"redis.sentinel.addrs.a: "}},
		"nothing in a list": {
			file: "redlock: {members: ['a:1', 'b:1', 'c:1', ~]}",
			want: []string{"redlock.members: must be one value, or a list of words"},
		},
		"a database below none": {args: []string{"--redis", "redis://h/-1"}, want: []string{"must be HOST:PORT"}},
		"other keys unused": {
			file: "redis: {prefix: p}", want: []string{"redis: is configured, but store.kind is memory"},
		},
		"a user of sentinels unused": {
			file: "redis: {sentinel: {username: u}}", args: []string{"--redis", "r:1"},
			want: []string{"redis.sentinel: is only for store.kind sentinel and redlock, which is standalone"},
		},
		"a store that is meant": {file: "store: {kind: redis}", want: []string{"redlock; did you mean standalone?"}},
		"an unknown store":      {file: "store: {kind: paper}", want: []string{"store.kind: "}},
		"a typo and its place": {
			file: "log:\n  levl: info",
			want: []string{"log.levl: there is no such key (line 2); did you mean log.level?"},
		},
		"a key without section": {file: "fence_ttl: 1h", want: []string{"did you mean redis.fence_ttl?"}},
		"half of a key": {
			env:  []string{"LOCKD_REDIS_PASSWORD=x"},
			want: []string{"did you mean LOCKD_REDIS_PASSWORD_FILE?"},
		},
		"an empty typo":         {file: "sesion: {}\nlimit:\n", want: []string{"sesion: ", "limit: "}},
		"a section as variable": {env: []string{"LOCKD_SESSION=3s"}, want: []string{"LOCKD_SESSION: there is no such key"}},
		"a value and its place": {
			file: "\n\nsession: {ttl: 30}",
			want: []string{`session.ttl: is "30", must be`, "(line 3)"},
		},
		"a value and its bound": {
			file: "limits: {sessions: 0}",
			want: []string{"limits.sessions: is 0, must be at least 1"},
		},
		"a value and its words": {
			args: []string{"--log-level", "loud"},
			want: []string{`is "loud", must be one of debug, info, warn, error`},
		},
		"a store's words": {
			file: "store: {kind: redis}",
			want: []string{"one of memory, standalone, sentinel, cluster, redlock"},
		},
		"no keys at all":      {file: "- listen", want: []string{"line 1"}},
		"an anchor in itself": {file: "a: &a {b: *a}", want: []string{"contains itself"}},
		"a longest lease": {
			file: "limits: {max_lease: 1700000h}\nredis: {fence_ttl: 2500000h}",
			args: []string{"--redis", "r:1"}, want: []string{"redis.fence_ttl"},
		},
		"names for no frame": {
			file: "limits: {name_bytes: 9223372036854775807, holder_bytes: 9223372036854775807}",
			want: []string{"limits.frame_bytes"},
		},
		"all at once": {
			file: "sesion: {ttl: 3s}\nsession: {ttl: x}\nlimits: {sessions: 0}\nshutdown: {timeout: 1s}\n",
			env:  []string{"LOCKD_OOPS=1", "LOCKD_LOG_FORMAT=xml"},
			args: []string{"--listen", "nowhere"},
			want: []string{
				"sesion.ttl", "session.ttl", "limits.sessions", "shutdown.timeout", "LOCKD_OOPS", "log.format",
				"listen",
			},
		},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, row.file, row.env, row.args...)
			if err == nil {
				t.Fatal("accepted")
			}
			for _, want := range row.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not mention %q:\n%v", want, err)
				}
			}
		})
	}
}

func TestForeignVariablesAreIgnored(t *testing.T) {
	env := []string{
		"PATH=/bin", "LOCKD_ADDR=x", "LOCKD_ADMIN_ADDR=x", "LOCKD_NAME=x", "LOCKD_FENCE=7", "LOCKD_NAMES=x", "LOCKD_FENCES=7",
		"LOCKDX=1",
		"LOCKD_ACTOR=x", "LOCKD_TLS=x", "LOCKD_CACERT=x", "LOCKD_CERT=x", "LOCKD_KEY=x", "LOCKD_SERVER_NAME=x",
		"LOCKD_SERVICE_HOST=10.0.0.1", "LOCKD_SERVICE_PORT=7420", "LOCKD_SERVICE_PORT_GRPC=7420",
		"LOCKD_PORT=tcp://10.0.0.1:7420", "LOCKD_PORT_7420_TCP=tcp://10.0.0.1:7420",
		"LOCKD_PORT_7420_TCP_PROTO=tcp", "LOCKD_PORT_7420_TCP_PORT=7420", "LOCKD_PORT_7420_TCP_ADDR=10.0.0.1",
		"LOCKD_OPS_SERVICE_HOST=10.0.0.2", "LOCKD_OPS_PORT_7421_TCP_ADDR=10.0.0.2",
	}
	if got, err := load(t, "", env); err != nil || !reflect.DeepEqual(got, Default()) {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestNullIsTheDefault(t *testing.T) {
	for _, file := range []string{"listen:\nsession: {ttl: }\n", "session:\nredis: {tls: {}}\n", "# nothing\n", "~"} {
		if got, err := load(t, file, nil); err != nil || !reflect.DeepEqual(got, Default()) {
			t.Errorf("%q: got %+v, %v", file, got, err)
		}
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
		{"--redis", "r:1", "--redis-sentinel", "m@a:1"},
		{"--redis-sentinel", "a:1"},
	} {
		if _, err := ParseArgs(args); err == nil {
			t.Errorf("%q accepted", args)
		}
	}
}

func TestEachFlagSetsItsKey(t *testing.T) {
	want := Default()
	want.Listen, want.OpsListen, want.AdminListen = ":1", ":2", ":3"
	want.Store.Kind, want.Redis.Addr = StoreStandalone, "r:4"
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
	if err != nil {
		f.Fatal(err)
	}
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
			if !k.isSection() {
				env = append(env, fmt.Sprint(k.variable(), "=", valueOf(k)))
			}
		}
		if again, err := load(t, file, env); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("accepted an invalid configuration: got %+v, %v, want %+v", again, err, c)
		}
	})
}

// valueOf is what a key is set to, also if it is secret.
func valueOf(k key) any {
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
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	return a
}
