package topology

import (
	"errors"
	"reflect"
	"testing"
)

func standalone(addr, user string, db int, tls bool) Server {
	return Server{Kind: Standalone, Addrs: []string{addr}, Username: user, DB: db, TLS: tls}
}

func TestAt(t *testing.T) {
	rows := []struct {
		redis Redis
		want  Server
		err   error
	}{
		{redis: Redis{Addr: "h:1", DB: 2}, want: standalone("h:1", "", 2, false)},
		{redis: Redis{Addr: "[::1]:1"}, want: standalone("[::1]:1", "", 0, false)},
		{redis: Redis{Addr: "redis://h"}, want: standalone("h:6379", "", 0, false)},
		{redis: Redis{Addr: "redis://[::1]/"}, want: standalone("[::1]:6379", "", 0, false)},
		{redis: Redis{Addr: "redis://u@h:1/3"}, want: standalone("h:1", "u", 3, false)},
		{redis: Redis{Addr: "rediss://h:1"}, want: standalone("h:1", "", 0, true)},
		{redis: Redis{Addr: "h:1", TLS: TLS{Enabled: true}}, want: standalone("h:1", "", 0, true)},
		{redis: Redis{Addr: "unix:///run/redis.sock", DB: 2}, want: standalone("/run/redis.sock", "", 2, false)},
		{redis: Redis{Addr: "unix://redis.sock"}, err: errAddress},
		{redis: Redis{Addr: "unix:///run/redis.sock?db=1"}, err: errAddress},
		{redis: Redis{Addr: "unix:///run/redis.sock", TLS: TLS{Enabled: true}}, err: errSocket},
		{redis: Redis{Addr: "h"}, err: errAddress},
		{redis: Redis{Addr: ":1"}, err: errAddress},
		{redis: Redis{Addr: "h:0"}, err: errAddress},
		{redis: Redis{Addr: "http://h:1"}, err: errAddress},
		{redis: Redis{Addr: "redis://h/x"}, err: errAddress},
		{redis: Redis{Addr: "redis://u:p@h:1"}, err: errPassword},
		{redis: Redis{Addr: "u:p@h:1"}, err: errPassword},
		{redis: Redis{Addr: "redis://h:1?protocol=3"}, err: errOptions},
		{redis: Redis{Addr: "redis://h:1/3", DB: 2}, err: errTwice},
		{redis: Redis{Addr: "cluster://h:1", DB: 2}, err: errDatabase},
		{redis: Redis{Addr: "redis://a@h:1", Username: "b"}, err: errTwice},
	}
	for _, row := range rows {
		got, err := row.redis.At(row.redis.Addr)
		if !errors.Is(err, row.err) || !reflect.DeepEqual(got, row.want) {
			t.Errorf("%s: got %+v, %v, want %+v, %v", row.redis.Addr, got, err, row.want, row.err)
		}
	}
}

// Replicas that keep the same locks may know the servers in another order and as other users.
func TestNameSaysOnlyWhichServerItIs(t *testing.T) {
	for at, want := range map[string]string{
		"redis://u@h:1":              "h:1",
		"redis://u@h:1/3":            "h:1/3",
		"rediss://h":                 "h:6379",
		"sentinel://m@b:2,a:1":       "sentinel://m@a:1,b:2",
		"cluster://b:2,[::1]:1,a:12": "cluster://[::1]:1,a:12,b:2",
	} {
		s, err := Redis{}.At(at)
		if got := s.Name(); got != want || err != nil {
			t.Errorf("%s: got %s, %v, want %s", at, got, err, want)
		}
	}
}
