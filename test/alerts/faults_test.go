package alerts

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// An outage is seen by who renews and by who asks at that moment, too.
var outage = []string{"LockdStoreDown", "LockdRenewalsFail", "LockdOutcomesUnknown", "LockdLocksLost"}

var faults = map[string]fault{
	"Redis is stopped":         {[]string{"LockdStoreDown", "LockdRenewalsFail"}, outage, redisIsStopped},
	"Redis stays away":         {[]string{"LockdLocksLost"}, outage, redisStaysAway},
	"Redis loses its data":     {[]string{"LockdLocksLost"}, outage, redisLosesItsData},
	"a lock is freed by force": {[]string{"LockdLocksLost"}, nil, aLockIsForced},
	"Redis takes no writes": {
		[]string{"LockdRenewalsFail"},
		[]string{"LockdLocksLost"},
		redisTakesNoWrites,
	},
	"Redis stands still":                    {[]string{"LockdOutcomesUnknown"}, outage, redisStandsStill},
	"Redis evicts keys":                     {[]string{"LockdRedisEvicts"}, nil, redisEvicts},
	"lockd gets no processor":               {[]string{"LockdRenewalsLate"}, outage, lockdGetsNoProcessor},
	"a client leaks locks":                  {[]string{"LockdQuotaDenied"}, nil, aClientLeaksLocks},
	"a holder hangs":                        {[]string{"LockdWaiterStuck"}, nil, aHolderHangs},
	"two wait for each other":               {[]string{"LockdDeadlock"}, nil, twoWaitForEachOther},
	"replicas keep locks in different ways": {[]string{"LockdConfigDiffers"}, outage, replicasDiffer},
	"a member is killed": {
		[]string{"LockdMemberDown"},
		[]string{"LockdOutcomesUnknown"},
		aMemberIsKilled,
	},
	"the majority is gone": {
		[]string{"LockdStoreDown", "LockdMemberDown", "LockdLocksLost", "LockdNoMajorityVotes"},
		outage,
		noMajority,
	},
	"a majority forgets":    {[]string{"LockdNoMajorityVotes"}, outage, aMajorityForgets},
	"a certificate expires": {[]string{"LockdCertificateExpires"}, nil, aCertificateExpires},

	"the clients file is wrong":        {[]string{"LockdClientsFileInvalid"}, nil, theClientsFileIsWrong},
	"the audit is full":                {[]string{"LockdAuditLinesDropped"}, nil, theAuditIsFull},
	"a stranger comes again and again": {[]string{"LockdUnauthenticated"}, nil, aStrangerComesAgainAndAgain},
	"an issuer has no keys":            {[]string{"LockdSigningKeysOld"}, nil, anIssuerHasNoKeys},
}

func redisIsStopped(t *testing.T, s *scene) func() {
	rs := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	d := s.serve(on(rs.Addr)...)
	takeMany(t, dial(t, d, client.WithSessionTTL(ttl)), 20)
	rs.Stop()
	return rs.Restart
}

func redisStaysAway(t *testing.T, s *scene) func() {
	rs := redistest.Start(t)
	d := s.serve(on(rs.Addr, shortTTL)...)
	hold(t, d, "job")
	rs.Kill()
	s.lost("expired")
	return rs.Restart
}

func redisLosesItsData(t *testing.T, s *scene) func() {
	rs := redistest.Start(t)
	d := s.serve(on(rs.Addr, shortTTL)...)
	take(t, dial(t, d), "job")
	rs.RestartEmpty()
	s.lost("data_loss")
	return func() {}
}

func aLockIsForced(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr)...)
	take(t, dial(t, d), "job")
	res, err := lockdv1.NewAdminServiceClient(d.Operate(t)).ForceRelease(t.Context(),
		&lockdv1.ForceReleaseRequest{Name: "job"})
	if err != nil || !res.GetReleased() {
		t.Fatalf("got %v, %v", res, err)
	}
	s.lost("forced")
	return func() {}
}

// lost waits until the alert names this reason.
func (s *scene) lost(reason string) {
	s.t.Helper()
	q := fmt.Sprintf(`ALERTS{alertstate="firing",alertname="LockdLocksLost",instance=%q,reason=%q}`, s.addr, reason)
	harness.Until(s.t, "a loss is told: "+reason, func() bool { return len(s.query(s.t, q)) == 1 })
}

// As a master does that has to have replicas, and lost them.
func redisTakesNoWrites(t *testing.T, s *scene) func() {
	rs := redistest.Start(t)
	d := s.serve(on(rs.Addr)...)
	takeMany(t, dial(t, d, client.WithSessionTTL(10*time.Second)), 20)
	set := func(replicas string) {
		if err := rs.Client().ConfigSet(t.Context(), "min-replicas-to-write", replicas).Err(); err != nil {
			t.Error(err)
		}
	}
	set("1")
	return func() { set("0") }
}

func redisStandsStill(t *testing.T, s *scene) func() {
	rs := redistest.Start(t)
	d := s.serve(on(rs.Addr)...)
	c := dial(t, d)
	take(t, c, "job")
	rs.Pause()
	wait(t, c, "another")
	return rs.Resume
}

func redisEvicts(t *testing.T, s *scene) func() {
	rs := redistest.Start(t, "--maxmemory", "3mb", "--maxmemory-policy", "allkeys-lru")
	s.export(rs)
	stuff := strings.Repeat("x", 10_000)
	rc := rs.Client()
	for i := range 1000 {
		harness.Must(t, rc.Set(t.Context(), fmt.Sprint("other ", i), stuff, 0).Err())
	}
	return func() {}
}

// export has the metrics of a Redis scraped.
func (s *scene) export(rs *redistest.Server) {
	s.t.Helper()
	addr := proctest.FreeAddr(s.t)
	proctest.Start(s.t, *exporterBin, nil, "-redis.addr", "redis://"+rs.Addr, "-web.listen-address", addr)
	s.watch(s.t, addr)
	s.addr = addr
}

// As a container does that has used up its share: it stands still again and again.
func lockdGetsNoProcessor(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr)...)
	takeMany(t, dial(t, d, client.WithSessionTTL(9*time.Second)), 50)
	end := time.Now().Add(harness.Patience)
	for !s.firing(t, "LockdRenewalsLate", s.addr) && time.Now().Before(end) {
		d.Signal(syscall.SIGSTOP)
		time.Sleep(1800 * time.Millisecond)
		d.Signal(syscall.SIGCONT)
		time.Sleep(600 * time.Millisecond)
	}
	return func() {}
}

func aClientLeaksLocks(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr, "LOCKD_LIMITS_LOCKS_PER_SESSION=10")...)
	c := dial(t, d)
	takeMany(t, c, 10)
	if _, err := c.Lock(t.Context(), "one more"); client.Reason(err) != "QUOTA_LOCKS" {
		t.Fatalf("got %v", err)
	}
	return func() {}
}

func aHolderHangs(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr)...)
	take(t, dial(t, d), "job")
	return wait(t, dial(t, d), "job")
}

func twoWaitForEachOther(t *testing.T, s *scene) func() {
	d := s.serve(on(redistest.Start(t).Addr)...)
	a, b := dial(t, d, client.WithActor("a")), dial(t, d, client.WithActor("b"))
	take(t, a, "one")
	take(t, b, "two")
	wait(t, a, "two")
	return wait(t, b, "one")
}

// Each of two replicas declares how it keeps locks. While one of them stands still, Redis is emptied, and the other one
// starts.
func replicasDiffer(t *testing.T, s *scene) func() {
	servers := redistest.StartMasters(t, 3)
	d := s.serve(on(servers[0].Addr)...)
	d.Signal(syscall.SIGSTOP)
	harness.Must(t, servers[0].Client().FlushAll(t.Context()).Err())
	other := harness.StartLockdOn(t, lockdBin, over(servers)...)
	d.Signal(syscall.SIGCONT)
	return func() {
		other.Kill()
		if err := servers[0].Client().Del(t.Context(), "lockd:config:").Err(); err != nil { // or a minute passes
			t.Error(err)
		}
	}
}

func aMemberIsKilled(t *testing.T, s *scene) func() {
	servers := redistest.StartMasters(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	d := s.serve(over(servers)...)
	take(t, dial(t, d), "job")
	servers[0].Kill()
	return servers[0].Restart
}

func noMajority(t *testing.T, s *scene) func() {
	servers := redistest.StartMasters(t, 3, "--appendonly", "yes", "--appendfsync", "always")
	d := s.serve(over(servers, shortTTL)...)
	hold(t, d, "job")
	servers[0].Kill()
	servers[1].Kill()
	s.lost("no_quorum")
	s.fires()
	return func() { servers[0].Restart(); servers[1].Restart() }
}

// Two of three are emptied one after the other. They vote again by themselves.
func aMajorityForgets(t *testing.T, s *scene) func() {
	servers := redistest.StartMasters(t, 3)
	d := s.serve(over(servers,
		"LOCKD_REDLOCK_QUARANTINE=30s", "LOCKD_LIMITS_MAX_LEASE=30s", "LOCKD_SESSION_MAX_TTL=30s")...)
	take(t, dial(t, d, client.WithSessionTTL(ttl)), "job")
	for _, rs := range servers[:2] {
		harness.Must(t, rs.Client().FlushAll(t.Context()).Err())
		harness.Until(t, "it is found out", func() bool {
			return d.Metric(`lockd_redlock_member_quarantined{member="`+rs.Addr+`"}`) == 1
		})
	}
	return func() {}
}

// A certificate for some days is renewed while lockd runs.
func aCertificateExpires(t *testing.T, s *scene) func() {
	ca := certstest.NewAuthority(t, "authority")
	cert, key := ca.Issue(t, 60*24*time.Hour, "127.0.0.1").Files(t)
	d := s.serve(on(redistest.Start(t).Addr, "LOCKD_LISTEN_TLS_CERT_FILE="+cert, "LOCKD_LISTEN_TLS_KEY_FILE="+key)...)
	renew := func(valid time.Duration) {
		before := d.Metric(expiry)
		pair := ca.Issue(t, valid, "127.0.0.1")
		certstest.Write(t, key, pair.Key)
		certstest.Write(t, cert, pair.Cert)
		harness.Until(t, "the certificate is read again", func() bool { return d.Metric(expiry) != before })
	}
	clearText, err := net.Dial("tcp", d.Addr)
	harness.Must(t, err)
	if _, err := clearText.Write([]byte("no handshake")); err != nil {
		t.Error(err)
	}
	s.seen("lockd_tls_handshakes_failed_total")
	if err := clearText.Close(); err != nil {
		t.Error(err)
	}
	renew(6 * 24 * time.Hour)
	return func() { renew(60 * 24 * time.Hour) }
}

const expiry = `lockd_tls_certificate_expiry_timestamp_seconds{endpoint="listen"}`
