package pipe

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
)

// take returns the next batch, empty if nothing may be sent now. Probes go first, so that many renewals do not make
// Redis look absent.
func (p *Pipeline) take() (b batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := min(len(p.probes), p.Most); n > 0 {
		b = batch{jobs: p.probes[:n:n], sent: time.Now()}
		if p.probes = p.probes[n:]; len(p.probes) == 0 {
			p.probes = nil
		}
	} else if b = p.queue.take(time.Now(), p.Most, p.room); len(b.jobs) > 0 {
		p.room = nil
	}
	p.countLocked()
	if len(b.jobs) > 0 {
		b.missing, p.missing = p.missing, nil
	}
	return b
}

// sent is a batch under way.
type sent struct {
	batch
	packets  []Packet
	asking   bool
	wait     *redis.Cmd // asks how many replicas have it; nil if nobody asks
	end      time.Time  // its answer is overdue then
	answered int        // packets
}

// sending makes packets of a batch, and writes their bytes into c.out.
func (p *Pipeline) sending(c *conn, b batch) *sent {
	s := &sent{batch: b, packets: p.pack(b.jobs), asking: p.Asking, end: time.Now().Add(p.Timeout)}
	c.out = c.out[:0]
	for _, sha := range b.missing { // SCRIPT LOAD keeps it for good; since Redis 7.4, what EVAL leaves is forgotten again
		c.out = appendCommand(c.out, "script", "load", p.dialer.Scripts[sha])
	}
	for _, pk := range s.packets {
		if s.asking {
			c.out = appendCommand(c.out, "asking")
		}
		words := pk.Cmd.Args()
		if sha := shaOf(words); sha != "" && slices.Contains(b.missing, sha) { // a user may lack the right to load it
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

// EvalSHA calls a script by its SHA-1, to which the next word points. If Redis has forgotten the script, it is sent in
// full.
const EvalSHA = "evalsha"

// cmds are the commands of a batch, for a Hook.
func (s *sent) cmds() []*redis.Cmd {
	all := make([]*redis.Cmd, len(s.packets))
	for i, pk := range s.packets {
		all[i] = pk.Cmd
	}
	return all
}

func (s *sent) receive(c *conn) error {
	skip := len(s.missing)
	for _, pk := range s.packets {
		if s.asking {
			skip++
		}
		for ; skip > 0; skip-- {
			if _, err := c.in.reply(); err != nil {
				return err
			}
		}
		v, err := c.in.reply()
		if err != nil {
			return err
		}
		setReply(pk.Cmd, v)
		s.answered++
	}
	if s.wait != nil {
		v, err := c.in.reply()
		if err != nil {
			return err
		}
		setReply(s.wait, v)
	}
	if c.hook == nil {
		return nil
	}
	err := c.hook.Answered(s.cmds())
	if err != nil {
		s.answered = 0
	}
	return err
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

// end is called when a batch is not under way any more. why is nil if all of it was answered.
func (p *Pipeline) end(s *sent, why error) {
	p.taken(&s.batch)
	p.resend(s)
	p.tell(s, why)
	p.reuse(s.jobs)
}

// reuse keeps the slice of a batch's jobs for a later batch.
func (p *Pipeline) reuse(jobs []Job) {
	clear(jobs)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.room = jobs[:0]
}

func (p *Pipeline) taken(b *batch) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.answered(b, time.Now())
	if b.heavy > 0 {
		p.wakeWriter()
	}
}

// pack makes packets of jobs, and keeps the order of each tenant's jobs. Singles go first and together, except those
// behind another command of their tenant.
func (p *Pipeline) pack(jobs []Job) (packets []Packet) {
	var singles, others []Job
	var mixed map[*tenant]bool
	for i, j := range jobs {
		to := &singles
		if j.Single == nil || mixed[j.tenant] {
			to = &others
		}
		if len(*to) == i { // so far all jobs went here
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

// resend queues the jobs again for which Redis did nothing because it had forgotten the script.
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

// again queues a job once more, in front of all others of its tenant. It does not, and returns false, if order is kept
// and a later job of the tenant was sent already.
func (p *Pipeline) again(j Job, sha string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	t, known := j.tenant, p.dialer.Scripts[sha] != ""
	if t == nil || !known || p.queue.tenants[t.name] != t || p.dialer.Unended != nil && t.taken != j.number {
		return false
	}
	if j.Cmd != nil {
		j.Cmd.SetErr(nil)
	}
	p.queue.back(j, time.Now())
	p.countLocked()
	if !slices.Contains(p.missing, sha) {
		p.missing = append(p.missing, sha)
		p.dialer.Forgotten()
	}
	p.wakeWriter()
	return true
}

func (p *Pipeline) tell(s *sent, why error) {
	if why != nil && s.wait != nil {
		s.wait.SetErr(why)
	}
	few := p.tooFew(s.wait)
	for i, pk := range s.packets {
		err := why
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
