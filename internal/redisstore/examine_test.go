package redisstore

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/examine"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// found is the finding of a check, which there must be once.
func found(t *testing.T, all []lock.Finding, check string) lock.Finding {
	t.Helper()
	var one []lock.Finding
	for _, f := range all {
		if f.Check == check {
			one = append(one, f)
		}
	}
	if len(one) != 1 {
		t.Fatalf("got %v for %s, want one finding among %v", one, check, all)
	}
	return one[0]
}

// wantFound fails unless a check found something of a severity, and says what to do if it is bad.
func wantFound(t *testing.T, all []lock.Finding, check string, s lock.Severity, says string) {
	t.Helper()
	f := found(t, all, check)
	if f.Severity != s || !strings.Contains(f.Detail, says) {
		t.Errorf("got %+v, want severity %d and a word about %q", f, s, says)
	}
	if (f.Remedy == "") != (s < lock.SeverityWarning) {
		t.Errorf("%s of severity %d has the remedy %q", f.Check, f.Severity, f.Remedy)
	}
}

// worse are the checks that found something to change.
func worse(all []lock.Finding) (checks []string) {
	for _, f := range all {
		if f.Severity >= lock.SeverityWarning {
			checks = append(checks, f.Check)
		}
	}
	return checks
}

func TestAGoodServerIsFoundGood(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--appendonly", "yes")
	cfg := quick(srv)
	cfg.Prefix = "app:"         // that of the page
	cfg.OpTimeout = time.Minute // a round trip that takes a good part of it is told
	cfg.Username, cfg.PasswordNow = documentedUser(t, srv.Client())
	all := open(t, cfg).Examine(t.Context())
	if bad := worse(all); len(bad) > 0 {
		t.Errorf("got %v, want nothing to change", all)
	}
	for _, f := range all {
		untold := f.Check == examine.Rights && !tellsRights(t, srv)
		if f.Severity != lock.SeverityOK && !untold || f.Node != srv.Addr {
			t.Errorf("got %+v of %s", f, srv.Addr)
		}
	}
	if len(all) < 9 {
		t.Errorf("%d checks were made", len(all))
	}
}

// fillUp writes so many bytes, or until nothing more fits. A large value may be refused because of the room that it
// takes while it is read.
func fillUp(t *testing.T, c *redis.Client, most int) {
	t.Helper()
	for sum, size := 0, 64<<10; size > 0 && sum < most; {
		if c.Set(t.Context(), fmt.Sprint("filler ", sum), strings.Repeat("x", size), 0).Err() != nil {
			size /= 8
			continue
		}
		sum += size
	}
}

func TestWhatIsWrongWithAServerIsFound(t *testing.T) {
	t.Parallel()
	const good, warning, bad = lock.SeverityOK, lock.SeverityWarning, lock.SeverityError
	for _, one := range []struct {
		settings []string
		check    string
		s        lock.Severity
		says     string
	}{
		{[]string{"maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"}, examine.Policy, bad, "allkeys-lru"},
		{[]string{"maxmemory", "40mb"}, examine.Memory, warning, "STORE_FULL"},
		{[]string{"maxmemory", "1mb"}, examine.Memory, bad, "STORE_FULL"},
		{nil, examine.Persistence, warning, "forgets all"},
		{[]string{"save", "3600 1"}, examine.Persistence, warning, "snapshots"},
		{[]string{"appendonly", "yes", "appendfsync", "no"}, examine.Persistence, warning, "appendfsync no"},
		{[]string{"appendonly", "yes", "appendfsync", "always"}, examine.Persistence, good, "always"},
		{[]string{"min-replicas-to-write", "1"}, examine.Replication, bad, "refuses"},
	} {
		t.Run(strings.Join(one.settings, " "), func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t)
			s, c := open(t, quick(srv)), srv.Client()
			for i := 0; i < len(one.settings); i += 2 {
				must(t, c.ConfigSet(t.Context(), one.settings[i], one.settings[i+1]).Err())
			}
			for range 100 { // what others ask for meanwhile takes room, too, for a while
				if one.check != examine.Memory || found(t, s.Examine(t.Context()), one.check).Severity == one.s {
					break
				}
				fillUp(t, c, 25<<20) // which takes a quarter more, and a server some MiB itself
			}
			wantFound(t, s.Examine(t.Context()), one.check, one.s, one.says)
		})
	}
}

func TestAReplicaIsFound(t *testing.T) {
	t.Parallel()
	master, replica := redistest.Start(t, "--repl-diskless-sync-delay", "0"), redistest.Start(t)
	s := open(t, quick(replica))
	host, port, _ := strings.Cut(master.Addr, ":")
	must(t, replica.Client().ReplicaOf(t.Context(), host, port).Err())
	wantFound(t, s.Examine(t.Context()), examine.Reachable, lock.SeverityError, "not a master")
	m := open(t, quick(master))
	harness.Until(t, "the master tells of it", func() bool {
		f := found(t, m.Examine(t.Context()), examine.Replication)
		return f.Severity == lock.SeverityOK && strings.HasPrefix(f.Detail, "1 replicas, 1 in time")
	})
}

// What may not be looked at is told with the right that is missing, and the rest is looked at.
func TestAUserWithoutRightsIsTold(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--appendonly", "yes")
	c := srv.Client()
	user := []any{
		"acl", "setuser", "poor", "on", ">secret", "~*", "&*", "+@all", "-info", "-config", "-time", "-zadd", "-persist",
		"-type",
	}
	must(t, c.Do(t.Context(), user...).Err())
	cfg := quick(srv)
	cfg.Username, cfg.PasswordNow = "poor", always("secret")
	s := open(t, cfg)
	if id, err := s.Probe(t.Context()); err != nil || id == "" {
		t.Errorf("got %q, %v, want some identity", id, err)
	}
	all := s.Examine(t.Context())
	for check, right := range map[string]string{
		examine.Memory: "+info", examine.Policy: "+info", examine.Clock: "+time",
		examine.DataKey: "+type",
	} {
		f := found(t, all, check)
		if f.Severity != lock.SeverityInfo || !strings.Contains(f.Remedy, right) {
			t.Errorf("got %+v, want that the right %s is missing", f, right)
		}
	}
	if tellsRights(t, srv) {
		wantLacking(t, all)
	}
	must(t, c.Do(t.Context(), "acl", "setuser", "poor", "-eval").Err())
	wantFound(t, open(t, cfg).Examine(t.Context()), examine.Rights, lock.SeverityError, "may not run scripts")
}

// tellsRights says whether a server tells a user its rights.
func tellsRights(t *testing.T, srv *redistest.Server) bool {
	t.Helper()
	info, err := srv.Client().Info(t.Context(), "server").Result()
	must(t, err)
	return !strings.Contains(info, "redis_version:6.")
}

func wantLacking(t *testing.T, all []lock.Finding) {
	t.Helper()
	wantFound(t, all, examine.Rights, lock.SeverityError, "ZADD")
	for _, lacks := range []string{"PERSIST redisson_lock_queue:{n}", "TIME", "TYPE n"} {
		if f := found(t, all, examine.Rights); !strings.Contains(f.Detail, lacks) {
			t.Errorf("got %+v, want a word about %s", f, lacks)
		}
	}
}

// Keys of other programs are not for lockd's user: only the patterns that it needs are looked at, with the prefix.
func TestRightsAreThoseForThePrefix(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := srv.Client()
	user := []any{"acl", "setuser", "app", "on", ">secret", "~app:*", "~*{app:*", "~lockd:*", "&*", "+@all"}
	must(t, c.Do(t.Context(), user...).Err())
	cfg := quick(srv)
	cfg.Username, cfg.PasswordNow = "app", always("secret")
	for prefix, want := range map[string]lock.Severity{"app:": lock.SeverityOK, "other:": lock.SeverityError} {
		cfg.Prefix = prefix
		if !tellsRights(t, srv) {
			want = lock.SeverityInfo
		}
		if f := found(t, open(t, cfg).Examine(t.Context()), examine.Rights); f.Severity != want {
			t.Errorf("with the prefix %q: got %+v, want severity %d", prefix, f, want)
		}
	}
}

// A server that is silent is told as such, within the bound of a connection and an operation.
func TestASilentServerIsFoundInTime(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.OpTimeout, cfg.ConnectTimeout = 300*time.Millisecond, time.Second
	s := open(t, cfg)
	for range 2 { // with the connections that there are, and with new ones
		srv.Pause()
		begun := time.Now()
		all := s.Examine(t.Context())
		took := time.Since(begun)
		srv.Resume()
		wantFound(t, all, examine.Reachable, lock.SeverityError, "")
		if len(all) != 1 || took > 20*time.Second {
			t.Errorf("got %v after %v", all, took)
		}
	}
}

func TestSentinelsAreExamined(t *testing.T) {
	t.Parallel()
	k := redistest.StartSentinels(t)
	s := open(t, behind(k))
	var all []lock.Finding
	harness.Until(t, "they know each other", func() bool {
		all = s.Examine(t.Context())
		return !slices.ContainsFunc(all, func(f lock.Finding) bool {
			return strings.HasPrefix(f.Check, "SENTINEL") && f.Severity != lock.SeverityOK
		})
	})
	if f := found(t, all, examine.Reachable); f.Severity != lock.SeverityOK || f.Node != k.Master().Addr {
		t.Errorf("got %+v, want the address of the master %s", f, k.Master().Addr)
	}
	fine := 0
	for _, f := range all {
		if strings.HasPrefix(f.Check, "SENTINEL") && f.Severity == lock.SeverityOK && slices.Contains(k.Addrs, f.Node) {
			fine++
		}
	}
	if fine != 2*len(k.Addrs) {
		t.Errorf("got %v, want each of %d sentinels and its quorum fine", all, len(k.Addrs))
	}
	cfg := behind(k)
	cfg.Sentinel.Addrs = append(cfg.Sentinel.Addrs[:1:1], "127.0.0.1:1")
	all = open(t, cfg).Examine(t.Context())
	if i := slices.IndexFunc(all, func(f lock.Finding) bool { return f.Node == "127.0.0.1:1" }); i < 0 ||
		all[i].Severity != lock.SeverityWarning {
		t.Errorf("got %v, want a warning of the sentinel that is away", all)
	}
	if !slices.ContainsFunc(all, func(f lock.Finding) bool { return strings.Contains(f.Detail, "knows 2 sentinels") }) {
		t.Errorf("got %v, want a warning that two sentinels are few", all)
	}
}

func TestWhatIsDeclaredFirstIsKept(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := open(t, quick(srv)), open(t, quick(srv))
	declare := func(s *Store, text, want string) {
		t.Helper()
		if kept, err := s.Declare(t.Context(), text, time.Minute); kept != want || err != nil {
			t.Errorf("declared %q, got %q, %v, want %q", text, kept, err, want)
		}
	}
	declare(a, "one way", "one way")
	declare(b, "one way", "one way")
	declare(b, "another", "one way")
	cfg := quick(srv)
	cfg.Prefix = "other:"
	declare(open(t, cfg), "another", "another")

	c := srv.Client()
	const short = 10 * time.Second
	must(t, c.PExpire(t.Context(), "lockd:config:", short).Err())
	declare(b, "another", "one way")
	if left := c.PTTL(t.Context(), "lockd:config:").Val(); left > short {
		t.Errorf("one that differs prolonged it to %v", left)
	}
	declare(a, "one way", "one way")
	if left := c.PTTL(t.Context(), "lockd:config:").Val(); left < 50*time.Second || left > time.Minute {
		t.Errorf("it lasts %v after it was repeated", left)
	}
	c.Del(t.Context(), "lockd:config:")
	declare(b, "another", "another")
	declare(a, "one way", "another")

	cfg = quick(srv)
	cfg.OpTimeout = 300 * time.Millisecond
	a = open(t, cfg)
	srv.Pause()
	defer srv.Resume()
	if _, err := a.Declare(t.Context(), "one way", time.Minute); err == nil || !errors.Is(err, lock.ErrUnavailable) &&
		!errors.Is(err, lock.ErrOutcomeUnknown) {
		t.Errorf("got %v of a silent server", err)
	}
}

// One prefix that begins as another is not apart from it, and both are told.
func TestPrefixesThatOverlapFindEachOther(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	of := func(prefix string) *Store {
		cfg := quick(srv)
		cfg.Prefix = prefix
		return open(t, cfg)
	}
	overlaps := func(s *Store, want ...string) {
		t.Helper()
		got, err := s.Overlaps(t.Context(), time.Minute)
		if slices.Sort(got); err != nil || !slices.Equal(got, want) {
			t.Errorf("prefix %q: got %q, %v, want %q", s.Prefix, got, err, want)
		}
	}
	a, b := of("a:"), of("b:")
	overlaps(a)
	overlaps(b)
	overlaps(of("b:x:"), "b:")
	overlaps(b, "b:x:")
	overlaps(of(""), "a:", "b:", "b:x:")
	overlaps(a, "")
	overlaps(of(""), "a:", "b:", "b:x:")
	c := srv.Client()
	if left := c.PTTL(t.Context(), layout.Prefixes).Val(); left <= 0 || left > time.Minute {
		t.Errorf("got TTL %v, want a minute", left)
	}
	must(t, c.ZAdd(t.Context(), layout.Prefixes, redis.Z{Score: 1, Member: ""}).Err()) // it is gone for long
	overlaps(a)
	must(t, c.Set(t.Context(), layout.Prefixes, "text", 0).Err())
	if _, err := a.Overlaps(t.Context(), time.Minute); !errors.Is(err, lock.ErrKindMismatch) {
		t.Errorf("got %v of a key of another type", err)
	}
}
