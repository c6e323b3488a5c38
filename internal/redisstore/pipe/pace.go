package pipe

import (
	"context"
	"time"
)

const (
	// linger is for how long one who asks for little is expected to ask again. A client does so when it has heard the
	// answer.
	linger = 2 * time.Millisecond
	// paced is what busy tenants' jobs in a batch cost at most while such a one is there, unless one alone costs more.
	paced = 32
	// restFactor is how much longer no costly batch follows one than that took.
	restFactor = 2
)

// pace leaves two thirds of Redis's time to those who ask for little. While one of them is there, one batch at most is
// under way that has jobs of busy tenants or large ones, and for twice as long as it took, no other one follows. A
// client that waits for its answer before it asks again has nothing waiting for a moment; to serve others at once in
// each such moment would have it wait for them each time.
type pace struct {
	lastQuick time.Time     // jobs of those who have few were sent or answered
	quick     int           // batches under way that have such jobs
	resume    time.Time     // when the next costly batch may follow
	costly    int           // batches under way that have jobs of busy tenants, or large ones
	costlyAt  time.Time     // when the last of them was sent
	trip      time.Duration // about how long the way to Redis and back is
	timer     *time.Timer   // has a sender look again; nil if none has to
	looksAt   time.Time     // when it does
}

// leads says whether somebody is there who has few jobs, but some all the time. Who has a whole turn of them waiting
// makes nobody pause. If Redis is far away, the way decides about everybody's speed, and not what Redis does.
func (p *pace) leads(now time.Time) bool {
	return p.trip < linger && (p.quick > 0 || now.Sub(p.lastQuick) < linger)
}

// sent notes a batch.
func (p *pace) sent(b *batch, now time.Time) {
	if b.quick {
		p.quick++
	}
	if b.costly {
		p.costly++
		p.costlyAt = now
	}
}

// admits says whether a costly batch may be sent.
func (p *pace) admits(now time.Time) bool { return !p.leads(now) || !now.Before(p.turn()) }

// turn is when it may be while somebody leads. A batch that is not answered holds up the next one for a while only: its
// connection may be silent for good.
func (p *pace) turn() time.Time {
	if p.costly > 0 {
		return p.costlyAt.Add(longestRest)
	}
	return p.resume
}

// answered notes the end of a batch.
func (p *pace) answered(b *batch, now time.Time) {
	if b.quick {
		p.quick--
		p.lastQuick = now
	}
	if b.costly {
		p.costly--
		p.resume = now.Add(time.Duration(b.burden) * timeOfSingle * restFactor)
	}
	if b.trip == 0 {
		return
	}
	if p.trip == 0 {
		p.trip = b.trip
	}
	p.trip = min(b.trip, p.trip*9/8+time.Microsecond)
}

// rest is how long it lasts until a costly batch may be sent, if nothing is answered before.
func (p *pace) rest(now time.Time) time.Duration {
	rest := p.turn().Sub(now)
	if p.quick == 0 {
		rest = min(rest, p.lastQuick.Add(linger).Sub(now))
	}
	return max(rest, 0)
}

// take returns the next batch. Probes go first: how much there is to renew must not decide whether Redis is there.
func (p *Pipeline) take() batch {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if now.Sub(p.looked) >= p.Timeout/lookParts {
		p.looked = now
		p.mu.Unlock()
		p.failWaited()
		p.mu.Lock()
	}
	b := p.takeLocked(now)
	p.countLocked()
	if len(b.jobs) > 0 {
		p.busy++
		p.pace.sent(&b, now)
	}
	return b
}

func (p *Pipeline) takeLocked(now time.Time) batch {
	if n := min(len(p.probes), p.Most); n > 0 {
		b := batch{jobs: p.probes[:n:n]}
		if p.probes = p.probes[n:]; len(p.probes) == 0 {
			p.probes = nil
		}
		return b
	}
	p.forgetLocked(now)
	b := batch{most: p.Most, limit: batchCost, shared: len(p.tenants) > 1 && !p.closed}
	led, costly := b.shared && p.pace.leads(now), !b.shared || p.pace.admits(now)
	if costly && p.largeTurnLocked(now) {
		p.largeSent, p.largeLast, p.largeAt = true, true, now
		b.large = true
		b.limit = p.portion(&b, now)
		tenants := max(p.large.tenants, 1)
		p.cutLocked(&p.large, &b, now, true)
		if b.shared {
			p.ahead += b.cost * p.small.hungry() / tenants
		}
		return b
	}
	if free := p.up - p.busy; p.Spread && free > 1 {
		b.most = min(b.most, (p.small.n+free-1)/free)
	}
	p.cutLocked(&p.small, &b, now, costly)
	if p.ahead -= b.cost; p.ahead < 0 || p.small.hungry() == 0 {
		p.ahead = 0
	}
	if len(b.jobs) > 0 && (!led || b.costly || !p.small.hasBusy()) {
		p.largeLast = false // while somebody leads, it is about the jobs of busy tenants: his own go in any case
	}
	if !costly && len(b.jobs) == 0 {
		p.restLocked(now)
	}
	return b
}

// largeTurnLocked says whether large ones are next. If large ones and small ones wait, they go in turn, and as much is
// done for each tenant of one line as for each of the other.
func (p *Pipeline) largeTurnLocked(now time.Time) bool {
	if p.large.n == 0 || p.largeSent {
		return false
	}
	return p.small.n == 0 || !p.largeLast && (p.ahead == 0 || now.Sub(p.largeAt) > longestRest)
}

// cutLocked takes jobs of a line out. What is under way for several tenants is measured.
func (p *Pipeline) cutLocked(l *line, b *batch, now time.Time, costly bool) {
	portion, before := p.portion(b, now), l.busy.taken
	if costly && l.busy.missed && l.hasBusy() {
		l.cutBusy(b, now, min(portion, paced))
		portion -= b.cost
	}
	if b.shared {
		b.begin(nil)
	}
	most, limit := b.most, b.limit
	if costly && l.hasBusy() && l.hasQuick() {
		b.most, b.limit = most*3/4, limit*3/4 // busy ones get the rest
	}
	few := l.cutQuick(b, now)
	if b.quick = few > 0 && !b.large; b.quick {
		p.pace.lastQuick = now
	}
	b.most, b.limit = most, limit
	if costly {
		l.cutBusy(b, now, portion)
		l.busy.missed = l.hasBusy() && l.busy.taken == before
	}
	if b.large {
		b.burden = b.cost
	}
	b.costly = b.shared && b.burden > 0
	b.measured = b.shared && !p.Asking && b.measure()
}

// portion is what busy tenants' jobs in a batch may cost.
func (p *Pipeline) portion(b *batch, now time.Time) int {
	if b.shared && p.pace.leads(now) {
		return paced
	}
	return b.limit
}

// restLocked has a sender look again when a costly batch may be sent. Who has told an answer looks anyway.
func (p *Pipeline) restLocked(now time.Time) {
	if p.small.n+p.large.n == 0 {
		return
	}
	rest := p.pace.rest(now)
	if p.pace.timer != nil {
		if !now.Add(rest).Before(p.pace.looksAt) {
			return
		}
		p.pace.timer.Stop()
	}
	p.pace.looksAt = now.Add(rest)
	var timer *time.Timer
	timer = time.AfterFunc(rest, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.restedLocked(timer)
	})
	p.pace.timer = timer
}

// restedLocked has all senders look. If one only did, and its connection was silent, the others would not know that
// they may go on.
func (p *Pipeline) restedLocked(timer *time.Timer) {
	if p.pace.timer == timer {
		p.pace.timer = nil
	}
	for range p.Senders {
		p.wakeLocked()
	}
}

// tenantLocked is the tenant with a name.
func (p *Pipeline) tenantLocked(name string, now time.Time) *tenant {
	if !p.Fair {
		name = ""
	}
	t := p.tenants[name]
	if t == nil {
		t = &tenant{name: name, rate: rateOne, weight: 1}
		if p.Weight != nil {
			t.weight = p.Weight(name)
		}
		t.small.tenant, t.large.tenant = t, t
		p.tenants[name] = t
	}
	t.last = now
	return t
}

// forgetLocked forgets tenants that have not asked for a while. Each is looked at once in that while.
func (p *Pipeline) forgetLocked(now time.Time) {
	if now.Sub(p.forgotten) < forgetAfter {
		return
	}
	p.forgotten = now
	for name, t := range p.tenants {
		if t.waiting() == 0 && now.Sub(t.last) > forgetAfter {
			delete(p.tenants, name)
		}
	}
}

// Share is how many operations of a tenant wait for their turn, and how many tenants have any that do.
func (p *Pipeline) Share(from string) (its, tenants int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if t := p.tenants[from]; t != nil {
		its = t.waiting()
	}
	return its, p.small.tenants + p.large.tenants
}

// Forgive has nobody owe anything any more. Tests need it to know in which order things are sent.
func (p *Pipeline) Forgive() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, t := range p.tenants {
		t.small.credit, t.large.credit, t.rate = 0, 0, rateOne
	}
}

// tenantKey is where a context has the tenant of what is asked with it.
type tenantKey struct{}

// As has what is asked with a context be a tenant's.
func As(ctx context.Context, tenant string) context.Context {
	return context.WithValue(ctx, tenantKey{}, tenant)
}

func tenantIn(ctx context.Context) string {
	name, _ := ctx.Value(tenantKey{}).(string)
	return name
}
