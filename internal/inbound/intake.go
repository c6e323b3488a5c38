package inbound

import (
	"container/list"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

// Limits bound the messages that have not arrived, in bytes of our memory, and the time that each may take.
type Limits struct {
	Connection, Address, All int64
	Time                     time.Duration
}

const (
	// Share of a processor is what one address may cost with frames that ask for nothing. A call that is reset is
	// counted with 12 us, so there may be 4,000 of them in a second.
	Share = 0.05
	// Burst is the work that an address may cause before it has to pay.
	Burst = 200 * time.Millisecond

	// manyConnections bounds how long a connection waits: as if that many of its address caused as much work as it did. So
	// one that causes little work lives on beside others that cause much, and an address with that many connections still
	// costs no more than Share.
	manyConnections = 1000
	// mostDebt bounds what an address owes, as the time that it takes to pay: who caused work is forgiven some day.
	mostDebt = 10 * time.Minute

	// sweepPart: while messages are on their way, those that take too long are searched for every Limits.Time/sweepPart.
	sweepPart = 20
)

var rate = limits.Rate{Share: Share, Burst: Burst, MostDebt: mostDebt}

// The scopes of a message, and why a call ends.
const (
	ofConnection = iota
	ofAddress
	ofAll
	scopes
	byTime = scopes
)

var reasons = [...]string{ofConnection: "connection", ofAddress: "address", ofAll: "replica", byTime: "time"}

// Intake bounds the connections of some listeners together.
type Intake struct {
	limits  Limits
	log     *zap.Logger
	ended   [len(reasons)]prometheus.Counter
	slowed  prometheus.Counter
	endings observe.LogLimiter
	slows   observe.LogLimiter

	mu       sync.Mutex // after Conn.mu; guards the fields below
	all      scope
	accounts limits.Table[account]
	sweeping bool // a timer runs
}

// account is what one address has under way.
type account struct {
	scope

	work limits.Account
}

// isEmpty says whether an account is as a new one.
func isEmpty(_ lock.Tenant, a *account) bool {
	return a.held == 0 && a.work.Owes(rate, time.Now()) == -Burst
}

// woken is a connection with a call that is to end, and why.
type woken struct {
	*Conn

	why int
}

// scope counts messages that have not arrived: those of a connection, of an address, or all.
type scope struct {
	waits   list.List // of *stream, those that came first at the front; without those that are to end
	held    int64     // bytes
	leaving int64     // of held, for calls that are to end
}

// New makes an Intake.
func New(l Limits, log *zap.Logger, reg prometheus.Registerer) *Intake {
	in := &Intake{limits: l, log: log.Named("inbound"), accounts: limits.NewTable(isEmpty)}
	ended := prometheus.NewCounterVec(prometheus.CounterOpts{
		Namespace: "lockd", Name: "calls_cut_total",
		Help: "Calls that were ended before their message was there: too much was arriving, or it took too long.",
	}, []string{"reason"})
	for i, r := range reasons {
		in.ended[i] = ended.WithLabelValues(r)
	}
	in.slowed = prometheus.NewCounter(prometheus.CounterOpts{
		Namespace: "lockd", Name: "connections_slowed_seconds_total",
		Help: "Time for which connections were not read, as their clients caused work and asked for nothing.",
	})
	reg.MustRegister(ended, in.slowed, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "lockd", Name: "arriving_bytes", Help: "Memory held for messages that have not arrived.",
	}, func() float64 {
		in.mu.Lock()
		defer in.mu.Unlock()
		return float64(in.all.held)
	}))
	return in
}

// Spend counts work of a tenant, and returns for how long the connection that caused it is not to be read. If that is
// ignored, the tenant's connections are read later once they cause work themselves.
func (in *Intake) Spend(of lock.Tenant, work time.Duration) time.Duration {
	in.mu.Lock()
	defer in.mu.Unlock()
	return rate.Wait(min(in.accounts.Of(of).work.Spend(rate, work), manyConnections*work))
}

// countLocked sets what a stream holds for its message, in all its scopes. It returns the connections with calls that
// are to end to make room.
func (in *Intake) countLocked(s *stream, held int64) (wake []woken) {
	all := in.scopesLocked(s)
	first := s.since.IsZero()
	if first {
		s.since = time.Now()
		in.beginSweepLocked()
	}
	for i, scope := range all {
		if first {
			s.waits[i] = scope.waits.PushBack(s)
		}
		scope.held += held - s.held
		if s.leaves {
			scope.leaving += held - s.held
		}
	}
	s.held = held
	for i, most := range [scopes]int64{in.limits.Connection, in.limits.Address, in.limits.All} {
		for scope := all[i]; scope.held-scope.leaving > most && scope.waits.Len() > 0; {
			oldest := scope.waits.Front().Value.(*stream)
			in.endLocked(oldest, i)
			wake = append(wake, woken{oldest.conn, i})
		}
	}
	return wake
}

func (in *Intake) scopesLocked(s *stream) [scopes]*scope {
	return [scopes]*scope{&s.conn.own, &in.accounts.Of(s.conn.tenant).scope, &in.all}
}

// forgetStreamLocked takes a stream out of its scopes: its message has arrived, or its call has ended.
func (in *Intake) forgetStreamLocked(s *stream) {
	for i, scope := range in.scopesLocked(s) {
		scope.held -= s.held
		if s.leaves {
			scope.leaving -= s.held
		} else {
			scope.waits.Remove(s.waits[i])
		}
		s.waits[i] = nil
	}
	s.held, s.leaves, s.since = 0, false, time.Time{}
}

// endLocked has the reader of a stream's connection end its call.
func (in *Intake) endLocked(s *stream, why int) {
	s.leaves = true
	for i, scope := range in.scopesLocked(s) {
		scope.waits.Remove(s.waits[i])
		scope.leaving += s.held
	}
	s.conn.endings = append(s.conn.endings, s.id)
	s.conn.told.Store(true)
	in.ended[why].Inc()
}

func (in *Intake) beginSweepLocked() {
	if !in.sweeping {
		in.sweeping = true
		time.AfterFunc(in.limits.Time/sweepPart, in.endLate)
	}
}

// endLate ends calls whose messages take too long.
func (in *Intake) endLate() {
	var wake []woken
	in.mu.Lock()
	for first := in.all.waits.Front(); first != nil; first = in.all.waits.Front() {
		s := first.Value.(*stream)
		if time.Since(s.since) < in.limits.Time {
			break
		}
		in.endLocked(s, byTime)
		wake = append(wake, woken{s.conn, byTime})
	}
	if in.sweeping = false; in.all.waits.Len() > 0 {
		in.beginSweepLocked()
	}
	in.mu.Unlock()
	wakeAll(wake)
}
