package config

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
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
