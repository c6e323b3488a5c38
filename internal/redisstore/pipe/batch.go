package pipe

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// exchange sends the next batch on a connection, waits for its answers and tells them. It says whether there was one.
func (p *Pipeline) exchange(c *conn) bool {
	c.writing.Lock()
	var b batch
	if p.waits() && c.usable() {
		b = p.take()
	}
	if len(b.jobs) == 0 {
		c.writing.Unlock()
		return false
	}
	p.begin(&b)
	s := p.sending(c, &b)
	c.write(s.cmds, s.end)
	c.reading.Lock()
	if s.wait == nil { // else what came behind it would only wait, and its time would pass
		c.writing.Unlock()
	}
	s.receive(c)
	c.reading.Unlock()
	if s.wait != nil {
		c.writing.Unlock()
	}
	p.taken(&b)
	p.resend(&s)
	p.tell(&s)
	p.rest(&b, c)
	return true
}

// waits says whether anything does.
func (p *Pipeline) waits() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.n+len(p.probes) > 0
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
		b.missing, p.missing = p.missing, nil
	}
	return b
}

func (p *Pipeline) takeLocked(now time.Time) batch {
	if n := min(len(p.probes), p.Most); n > 0 {
		b := batch{jobs: p.probes[:n:n], sent: now}
		if p.probes = p.probes[n:]; len(p.probes) == 0 {
			p.probes = nil
		}
		return b
	}
	most := p.Most
	if free := p.up*p.Window - p.busy; p.Spread && free > 1 {
		most = min(most, (p.queue.n+free-1)/free)
	}
	return p.queue.take(now, most)
}

// begin takes out what is not sent: those whose callers left, and those that have waited too long. Of the latter it is
// then known that nothing was done, which is worth more to the caller than a late success.
func (p *Pipeline) begin(b *batch) {
	oldest := time.Now().Add(-p.Timeout)
	b.jobs = slices.DeleteFunc(b.jobs, func(j Job) bool {
		if !j.Queued.Before(oldest) && (j.stage == nil || j.stage.CompareAndSwap(stageQueued, stageSent)) {
			return false
		}
		p.mu.Lock()
		p.queue.left(&j, time.Now())
		p.mu.Unlock()
		j.fail(ErrWaited)
		return true
	})
}

// sent is a batch under way.
type sent struct {
	packets  []Packet
	before   int // how many replies come before those of the packets
	asking   bool
	wait     *redis.Cmd // how many replicas have it; nil if that is not asked
	end      time.Time
	answered int   // packets
	why      error // not all were
}

// sending makes packets of a batch, and has their bytes in the connection's out.
func (p *Pipeline) sending(c *conn, b *batch) sent {
	s := sent{packets: p.pack(b.jobs), before: len(b.missing), asking: p.Asking, end: time.Now().Add(p.Timeout)}
	c.out = c.out[:0]
	for _, sha := range b.missing { // for good: what EVAL leaves is forgotten again, since Redis 7.4
		c.out = appendCommand(c.out, "script", "load", p.dialer.Scripts[sha])
	}
	for _, pk := range s.packets {
		if s.asking {
			c.out = appendCommand(c.out, "asking")
		}
		words := pk.Cmd.Args()
		if sha := shaOf(words); sha != "" && slices.Contains(b.missing, sha) { // who may not load scripts may send them
			words = slices.Concat([]any{"eval", p.dialer.Scripts[sha]}, words[2:])
		}
		c.out = appendCommand(c.out, words...)
	}
	if s.wait = p.waitFor(s.packets); s.wait != nil {
		c.out = appendCommand(c.out, s.wait.Args()...)
	}
	return s
}

// shaOf is the script that a command calls, empty if it calls none by its SHA-1.
func shaOf(words []any) string {
	if len(words) > 1 && words[0] == EvalSHA {
		if sha, ok := words[1].(*string); ok {
			return *sha
		}
	}
	return ""
}

// EvalSHA calls a script, which the word behind it points to. If Redis has forgotten it, it is sent in full.
const EvalSHA = "evalsha"

// cmds are the commands of a batch, for a Hook.
func (s *sent) cmds() []*redis.Cmd {
	all := make([]*redis.Cmd, len(s.packets))
	for i, pk := range s.packets {
		all[i] = pk.Cmd
	}
	return all
}

// receive reads what is answered.
func (s *sent) receive(c *conn) {
	_ = c.SetReadDeadline(s.end) // it may be closed; reading says so
	for range s.before {
		s.next(c)
	}
	for _, pk := range s.packets {
		if s.asking {
			s.next(c)
		}
		if v, ok := s.next(c); ok {
			setReply(pk.Cmd, v)
			s.answered++
		}
	}
	if s.wait != nil {
		if v, ok := s.next(c); ok {
			setReply(s.wait, v)
		} else {
			s.wait.SetErr(s.why)
		}
	}
	if s.why == nil && c.hook != nil {
		if err := c.hook.Answered(s.cmds()); err != nil {
			s.why, s.answered = c.fail(err), 0
		}
	}
	if s.why != nil {
		c.owe()
	}
}

// next reads one reply, if all before was read.
func (s *sent) next(c *conn) (v any, ok bool) {
	if s.why == nil {
		var err error
		if v, err = c.in.reply(); err != nil {
			s.why = c.fail(err)
		}
	}
	return v, s.why == nil
}

// setReply is what go-redis does with a reply.
func setReply(cmd *redis.Cmd, v any) {
	switch v := v.(type) {
	case nil:
		cmd.SetErr(redis.Nil)
	case redis.Error:
		cmd.SetErr(v)
	default:
		cmd.SetVal(v)
	}
}

// taken is called when a batch is not under way any more.
func (p *Pipeline) taken(b *batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy--
	p.queue.answered(b, time.Now(), p.up*p.Window > 1)
	if b.heavy > 0 {
		p.wakeLocked()
	}
}

// rest lets pass the time that is due after a batch.
func (p *Pipeline) rest(b *batch, c *conn) {
	if b.rest == 0 {
		return
	}
	pause := time.NewTimer(b.rest)
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-c.gone:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.heavyUnder--
	p.wakeLocked()
}

// pack makes packets of jobs, those of a tenant in their order. Singles go first, and together, but for those behind
// another command of their tenant.
func (p *Pipeline) pack(jobs []Job) (packets []Packet) {
	var singles, others []Job
	var mixed map[*tenant]bool
	for i, j := range jobs {
		to := &singles
		if j.Single == nil || mixed[j.tenant] {
			to = &others
		}
		if len(*to) == i { // so far there are only such
			*to = jobs[: i+1 : i+1]
		} else {
			*to = append(*to, j)
		}
		if j.Single == nil {
			if mixed == nil {
				mixed = make(map[*tenant]bool)
			}
			mixed[j.tenant] = true
		}
	}
	if len(singles) > 0 {
		packets = p.Gather(singles)
	}
	for i, j := range others {
		if j.Single != nil {
			packets = append(packets, p.Gather(others[i:i+1:i+1])...)
		} else {
			packets = append(packets, Packet{others[i : i+1 : i+1], j.Cmd, j.Done, j.Grants})
		}
	}
	return packets
}

// resend has what Redis did nothing for, as it had forgotten the script, sent once more.
func (p *Pipeline) resend(s *sent) {
	for i := s.answered - 1; i >= 0; i-- { // the last one first: each goes in front of the others
		pk := &s.packets[i]
		if err := pk.Cmd.Err(); err != nil && redis.HasErrorPrefix(err, "NOSCRIPT") {
			pk.Done = nil
			for _, j := range slices.Backward(pk.Jobs) {
				if !p.again(j, shaOf(pk.Cmd.Args())) {
					j.fail(err)
				}
			}
		}
	}
}

// again queues a job once more, in front of all others of its tenant; unless another one of them was sent behind it, or
// who wants it has left, and may ask for something else.
func (p *Pipeline) again(j Job, sha string) bool {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	t, known := j.tenant, p.dialer.Scripts[sha] != ""
	if t == nil || !known || p.queue.tenants[t.name] != t || p.dialer.Unended != nil && t.taken != j.number {
		return false
	}
	if j.stage != nil && !j.stage.CompareAndSwap(stageSent, stageQueued) {
		return false
	}
	if j.Cmd != nil {
		j.Cmd.SetErr(nil)
	}
	p.queue.back(j, now)
	p.countLocked()
	if !slices.Contains(p.missing, sha) {
		p.missing = append(p.missing, sha)
		p.dialer.Forgotten()
	}
	p.wakeLocked()
	return true
}

// tell says what became of the packets of a batch.
func (p *Pipeline) tell(s *sent) {
	few := p.tooFew(s.wait)
	for i, pk := range s.packets {
		err := s.why
		if i < s.answered {
			err = pk.Cmd.Err()
		}
		if err == nil && pk.Grants {
			err = few
		}
		if pk.Done != nil {
			pk.Done(err)
		}
	}
}
