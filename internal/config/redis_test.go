package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRedisEndpoint(t *testing.T) {
	rows := []struct {
		redis Redis
		want  Redis
		err   error
	}{
		{redis: Redis{Addr: "h:1", DB: 2}, want: Redis{Addr: "h:1", DB: 2}},
		{redis: Redis{Addr: "[::1]:1"}, want: Redis{Addr: "[::1]:1"}},
		{redis: Redis{Addr: "redis://h"}, want: Redis{Addr: "h:6379"}},
		{redis: Redis{Addr: "redis://[::1]/"}, want: Redis{Addr: "[::1]:6379"}},
		{redis: Redis{Addr: "redis://u@h:1/3"}, want: Redis{Addr: "h:1", Username: "u", DB: 3}},
		{redis: Redis{Addr: "rediss://h:1"}, want: Redis{Addr: "h:1", TLS: RedisTLS{Enabled: true}}},
		{redis: Redis{Addr: "h:1", TLS: RedisTLS{Enabled: true}}, want: Redis{Addr: "h:1", TLS: RedisTLS{Enabled: true}}},
		{redis: Redis{Addr: "unix:///run/redis.sock", DB: 2}, want: Redis{Addr: "/run/redis.sock", DB: 2}},
		{redis: Redis{Addr: "unix://redis.sock"}, err: errRedisAddr},
		{redis: Redis{Addr: "unix:///run/redis.sock?db=1"}, err: errRedisAddr},
		{redis: Redis{Addr: "unix:///run/redis.sock", TLS: RedisTLS{Enabled: true}}, err: errSocketTLS},
		{redis: Redis{Addr: "h"}, err: errRedisAddr},
		{redis: Redis{Addr: ":1"}, err: errRedisAddr},
		{redis: Redis{Addr: "h:0"}, err: errRedisAddr},
		{redis: Redis{Addr: "http://h:1"}, err: errRedisAddr},
		{redis: Redis{Addr: "redis://h/x"}, err: errRedisAddr},
		{redis: Redis{Addr: "redis://u:p@h:1"}, err: errRedisPassword},
		{redis: Redis{Addr: "u:p@h:1"}, err: errRedisPassword},
		{redis: Redis{Addr: "redis://h:1?protocol=3"}, err: errRedisOptions},
		{redis: Redis{Addr: "redis://h:1/3", DB: 2}, err: errRedisTwice},
		{redis: Redis{Addr: "redis://a@h:1", Username: "b"}, err: errRedisTwice},
	}
	for _, row := range rows {
		got, err := row.redis.Endpoint()
		if !errors.Is(err, row.err) || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: got %+v, %v, want %+v, %v", row.redis.Addr, got, err, row.want, row.err)
		}
	}
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	const secret = "hunter2"
	path := filepath.Join(t.TempDir(), secret)
	must(t, os.WriteFile(path, []byte(secret+"\n"), 0o600))
	c := Default()
	c.Redis.PasswordFile = SecretFile(path)
	c.Redis.TLS.KeyFile = SecretFile(path)
	asJSON, err := json.Marshal(c)
	must(t, err)
	texts := []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), string(asJSON)}
	for _, addr := range []string{
		"redis://u:" + secret + "@h", "u:" + secret + "@h:1", "redis://h/?password=" + secret,
		"unix://u:" + secret + "@/run/redis.sock", "redis://u:" + secret + "@h:x", secret + "://h", ":" + secret + "@h",
	} {
		_, err := load(t, "", []string{"LOCKD_REDIS_PASSWORD=" + secret}, "--redis", addr)
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if strings.Contains(text, secret) {
			t.Errorf("a secret in %s", text)
		}
	}
}

func TestSentinels(t *testing.T) {
	want := Default()
	want.Store.Kind = StoreSentinel
	want.Redis.Sentinel = Sentinel{Master: "locks", Addrs: []string{"a:1", "[::1]:2"}, Username: "u", PasswordFile: "f"}
	rest := "username: u, password_file: f}}\n"
	for name, row := range map[string]struct {
		file string
		env  []string
		args []string
	}{
		"flag": {file: "redis: {sentinel: {" + rest, args: []string{"--redis", "sentinel://locks@a:1,[::1]:2"}},
		"list": {file: "store: {kind: sentinel}\nredis: {sentinel: {master: locks, addrs: ['a:1', '[::1]:2'], " +
			rest},
		"words": {file: "store: {kind: sentinel}\nredis: {sentinel: {master: locks, addrs: 'a:1, [::1]:2', " + rest},
		"variables": {
			file: "redis: {sentinel: {addrs: [b], " + rest,
			env: []string{
				"LOCKD_STORE_KIND=sentinel", "LOCKD_REDIS_SENTINEL_MASTER=locks",
				"LOCKD_REDIS_SENTINEL_ADDRS=a:1,[::1]:2,",
			},
		},
		"flag on file": {
			file: "redis: {sentinel: {master: m, addrs: [c], " + rest,
			args: []string{"--redis=sentinel://locks@a:1,[::1]:2"},
		},
	} {
		if got, err := load(t, row.file, row.env, row.args...); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got  %+v, %v\nwant %+v", name, got, err, want)
		}
	}
}

func TestMembers(t *testing.T) {
	list := "store: {kind: redlock}\nredlock: {members: ['a:1', 'rediss://u@b:2/3', 'sentinel://locks@c:1,d:2', " +
		"'cluster://e:1,f:2']}"
	c, err := load(t, list, nil)
	if err != nil || len(c.Redlock.Members) != 4 {
		t.Fatalf("got %q, %v", c.Redlock.Members, err)
	}
	for i, want := range []struct {
		kind string
		one  Redis
	}{
		{StoreStandalone, Redis{Addr: "a:1"}},
		{StoreStandalone, Redis{Addr: "b:2", DB: 3, Username: "u", TLS: RedisTLS{Enabled: true}}},
		{StoreSentinel, Redis{Sentinel: Sentinel{Master: "locks", Addrs: []string{"c:1", "d:2"}}}},
		{StoreCluster, Redis{Cluster: Cluster{Addrs: []string{"e:1", "f:2"}}}},
	} {
		if kind, one, err := (Redis{}).Member(c.Redlock.Members[i]); err != nil || kind != want.kind ||
			!reflect.DeepEqual(one, want.one) {
			t.Errorf("member %d: got %s, %+v, %v", i, kind, one, err)
		}
	}
	want := []string{"a:1", "b:2", "c:3"}
	if c, err = load(t, "", nil, "--redlock", "a:1,b:2,c:3"); err != nil || c.Store.Kind != StoreRedlock ||
		!slices.Equal(c.Redlock.Members, want) {
		t.Errorf("flag: got %+v, %v", c.Redlock, err)
	}
	if c, err = load(t, "", nil, "--redis", "cluster://a:1,b:2"); err != nil || c.Store.Kind != StoreCluster ||
		len(c.Redis.Cluster.Addrs) != 2 {
		t.Errorf("flag: got %+v, %v", c.Redis.Cluster, err)
	}
}
