package config

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/internal/secret"
	"github.com/lockd-io/lockd/internal/topology"
)

func TestSecretsAreNeverPrinted(t *testing.T) {
	const hidden = "hunter2"
	path := filepath.Join(t.TempDir(), hidden)
	must(t, os.WriteFile(path, []byte(hidden+"\n"), 0o600))
	c := Default()
	c.Redis.PasswordFile = secret.File(path)
	c.Redis.TLS.KeyFile = secret.File(path)
	asJSON, err := json.Marshal(c)
	must(t, err)
	texts := []string{fmt.Sprint(c), fmt.Sprintf("%+v", c), fmt.Sprintf("%#v", c), string(asJSON)}
	for _, addr := range []string{
		"redis://u:" + hidden + "@h", "u:" + hidden + "@h:1", "redis://h/?password=" + hidden,
		"unix://u:" + hidden + "@/run/redis.sock", "redis://u:" + hidden + "@h:x", hidden + "://h", ":" + hidden + "@h",
	} {
		_, err := load(t, "", []string{"LOCKD_REDIS_PASSWORD=" + hidden}, "--redis", addr)
		texts = append(texts, err.Error())
	}
	for _, text := range texts {
		if strings.Contains(text, hidden) {
			t.Errorf("a secret in %s", text)
		}
	}
}

func TestSentinels(t *testing.T) {
	want := Default()
	want.Store.Kind = topology.Sentinel
	s := &want.Redis.Sentinel
	s.Master, s.Addrs, s.Username, s.PasswordFile = "locks", []string{"a:1", "[::1]:2"}, "u", "f"
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
	servers, wrong := c.Servers()
	if err != nil || wrong != nil || !reflect.DeepEqual(servers, []topology.Server{
		{Kind: topology.Standalone, Addrs: []string{"a:1"}},
		{Kind: topology.Standalone, Addrs: []string{"b:2"}, DB: 3, Username: "u", TLS: true},
		{Kind: topology.Sentinel, Master: "locks", Addrs: []string{"c:1", "d:2"}},
		{Kind: topology.Cluster, Addrs: []string{"e:1", "f:2"}},
	}) {
		t.Errorf("got %+v, %v, %v", servers, err, wrong)
	}
	want := []string{"a:1", "b:2", "c:3"}
	if c, err = load(t, "", nil, "--redlock", "a:1,b:2,c:3"); err != nil || c.Store.Kind != topology.Redlock ||
		!slices.Equal(c.Redlock.Members, want) {
		t.Errorf("flag: got %+v, %v", c.Redlock, err)
	}
	if c, err = load(t, "", nil, "--redis", "cluster://a:1,b:2"); err != nil || c.Store.Kind != topology.Cluster ||
		len(c.Redis.Cluster.Addrs) != 2 {
		t.Errorf("flag: got %+v, %v", c.Redis.Cluster, err)
	}
}
