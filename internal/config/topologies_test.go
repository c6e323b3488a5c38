package config

import (
	"reflect"
	"slices"
	"testing"
)

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
