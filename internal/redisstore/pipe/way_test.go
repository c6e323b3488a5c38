package pipe

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// list is where commands leave their numbers, in the order in which they are carried out.
const list = "list"

// push is a command that does.
func push(n string) *redis.Cmd { return redis.NewCmd(context.Background(), "rpush", list, n) }

// alone is a Single that does.
type alone struct {
	n    string
	done func(error)
}

func (a *alone) Fail(_ time.Duration, err error) { a.done(err) }

// pushAll makes one packet of all singles.
func pushAll(jobs []Job) []Packet {
	words := []any{"rpush", list}
	for _, j := range jobs {
		words = append(words, j.Single.(*alone).n)
	}
	return []Packet{{Jobs: jobs, Cmd: redis.NewCmd(context.Background(), words...), Done: func(err error) {
		for _, j := range jobs {
			j.Single.(*alone).done(err)
		}
	}}}
}

// way is a pipeline to an address, of one ordered connection.
func way(t testing.TB, addr string, timeout time.Duration, change ...func(*Dialer)) *Pipeline {
	t.Helper()
	o := redis.Options{Addr: addr, Protocol: 2, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true}
	d := NewDialer(o, "test", time.Minute, NewTrouble(zap.NewNop(), false))
	d.Unended = new(Unended)
	for _, c := range change {
		c(&d)
	}
	p := New(d, Config{Timeout: timeout, Most: MaxBatch, Fair: true, Gather: pushAll})
	t.Cleanup(p.Close)
	return p
}

// unordered plants a bug: earlier connections are not ended.
func unordered(d *Dialer) { d.Unended = nil }

// do makes one command.
func do(t testing.TB, p *Pipeline, cmd *redis.Cmd) error { return p.Do(t.Context(), Job{Cmd: cmd}) }

var must = harness.Must // ends the test at an error

// carriedOut pushes until it is done.
func carriedOut(t testing.TB, p *Pipeline, n string) {
	t.Helper()
	err := errors.New("not yet")
	for end := time.Now().Add(time.Minute); err != nil; err = do(t, p, push(n)) {
		if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// pushed are the numbers that are there.
func pushed(t testing.TB, c *redis.Client) []string {
	t.Helper()
	for range 2 { // all that was delivered before is read with the first one at the latest
		must(t, c.Ping(t.Context()).Err())
	}
	all, err := c.LRange(t.Context(), list, 0, -1).Result()
	must(t, err)
	return all
}

// load is tenants that push numbers, of which they do not wait for the answers, as singles and as other commands.
type load struct {
	p       *Pipeline
	fates   sync.Map // why each number was not pushed
	answers sync.WaitGroup
}

func (l *load) run(t testing.TB, tenants, each int) {
	var all sync.WaitGroup
	for tenant := range tenants {
		all.Go(func() {
			for i := range each {
				l.put(t, fmt.Sprint(tenant), fmt.Sprintf("%d:%d", tenant, i), i)
			}
		})
	}
	all.Wait()
	l.answers.Wait()
}

func (l *load) put(t testing.TB, from, n string, i int) {
	l.answers.Add(1)
	told := func(err error) {
		l.fates.Store(n, err)
		l.answers.Done()
	}
	j := Job{Queued: time.Now(), From: from, Cost: 1 + i%3, Single: &alone{n, told}}
	if i%5 == 0 {
		j.Single, j.Cmd, j.Done = nil, push(n), told
	}
	if err := l.p.Put(j); err != nil {
		t.Error(err)
		l.answers.Done()
	}
}

// check says what was not done as it was told, or not in the order in which a tenant asked for it.
func (l *load) check(all []string) error {
	last, times := map[string]int{}, map[string]int{}
	for _, n := range all {
		tenant, number, _ := strings.Cut(n, ":")
		i, err := strconv.Atoi(number)
		if before, some := last[tenant]; err != nil || some && i < before {
			return fmt.Errorf("%s came after %d: %w", n, before, err)
		}
		last[tenant] = i
		times[n]++
	}
	var wrong error
	l.fates.Range(func(n, fate any) bool {
		err, _ := fate.(error)
		if got := times[n.(string)]; got > 1 || err == nil && got != 1 || err != nil && NeverSent(err) && got != 0 {
			wrong = fmt.Errorf("%v was done %d times, and told: %w", n, got, err)
		}
		return wrong == nil
	})
	return wrong
}

func TestWhatATenantAsksForIsCarriedOutInItsOrder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	l := &load{p: way(t, srv.Addr, time.Minute)}
	l.run(t, 20, 500)
	all := pushed(t, srv.Client())
	if err := l.check(all); err != nil || len(all) != 20*500 {
		t.Errorf("%d numbers were pushed: %v", len(all), err)
	}
}

// Connections break all the time. What was answered is there once, what was never sent is not, and nothing comes late.
func TestTheOrderIsKeptOverBrokenConnections(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxy := redistest.StartProxy(t, srv.Addr)
	l := &load{p: way(t, proxy.Addr, time.Minute)}
	over := make(chan struct{})
	var cuts sync.WaitGroup
	cuts.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(5 * time.Millisecond):
				proxy.CutAll()
			}
		}
	})
	for range 20 {
		l.run(t, 10, 100)
		l.fates.Range(func(n, _ any) bool { l.fates.Delete(n); return true })
		if err := srv.Client().Del(t.Context(), list).Err(); err != nil {
			t.Error(err)
		}
	}
	l.run(t, 10, 100)
	close(over)
	cuts.Wait()
	if err := l.check(pushed(t, srv.Client())); err != nil {
		t.Error(err)
	}
}

// Who writes may be the first to see that the server hung up. What is under way then was sent, and perhaps done.
func TestWhatIsUnderWayWasSentWhoeverSeesTheEnd(t *testing.T) {
	t.Parallel()
	server, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	harness.Must(t, err)
	own, err := new(net.Dialer).DialContext(t.Context(), "tcp", server.Addr().String())
	harness.Must(t, err)
	other, err := server.Accept()
	harness.Must(t, err)
	c := newConn(own, self{}, nil, Window)
	c.under = []*sent{{}}
	harness.Must(t, errors.Join(other.Close(), server.Close()))
	harness.Until(t, "it is seen", func() bool { return !c.usable() })
	if NeverSent(c.why) {
		t.Errorf("what was sent is told %v", c.why)
	}
}

// late has the bytes of a connection held back that was given up, and delivers them when the next one has answered. It
// returns what was carried out; what was repeated, as an answer came too late, is there once.
func late(t *testing.T, change ...func(*Dialer)) []string {
	srv := redistest.Start(t)
	proxy := redistest.StartProxy(t, srv.Addr)
	p := way(t, proxy.Addr, 500*time.Millisecond, change...)
	carriedOut(t, p, "first")
	proxy.Hold(func(request []byte) bool { return bytes.Contains(request, []byte("given up")) })
	for proxy.Held() == 0 { // it may have waited too long for the connection, and not been sent
		if err := do(t, p, push("given up")); err == nil {
			t.Fatal("it is answered though it is held back")
		}
	}
	carriedOut(t, p, "next")
	proxy.Deliver()
	return slices.Compact(pushed(t, srv.Client()))
}

func TestNothingOfAConnectionThatWasGivenUpComesAfterTheNextAnswer(t *testing.T) {
	t.Parallel()
	if got := late(t); !slices.Equal(got, []string{"first", "next"}) {
		t.Errorf("got %q, want nothing that was held back", got)
	}
}

// The test finds a way that does not end earlier connections.
func TestPlantAConnectionIsNotEnded(t *testing.T) {
	t.Parallel()
	if got := late(t, unordered); got[len(got)-1] != "given up" {
		t.Errorf("got %q, want that to be carried out last", got)
	}
}

// A fail-over leads to another server, and the next one back. The connection to the first server is ended then.
func TestAFailOverLeadsBackToAServer(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	toA, toB := redistest.StartProxy(t, a.Addr), redistest.StartProxy(t, b.Addr)
	var master atomic.Pointer[string]
	master.Store(&toA.Addr)
	p := way(t, "master:1", 500*time.Millisecond, func(d *Dialer) {
		d.options.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
			return Wire{}.Dial(ctx, network, *master.Load())
		}
	})
	carriedOut(t, p, "first")
	toA.Hold(func(request []byte) bool {
		late := bytes.Contains(request, []byte("given up"))
		if late {
			master.Store(&toB.Addr)
		}
		return late
	})
	for toA.Held() == 0 { // it may have waited too long for the connection, and not been sent
		if err := do(t, p, push("given up")); err == nil {
			t.Fatal("it is answered though it is held back")
		}
	}
	carriedOut(t, p, "at B")
	master.Store(&toA.Addr)
	for !slices.Contains(pushed(t, a.Client()), "back") { // a connection to B may just have been on its way
		toB.CutAll()
		carriedOut(t, p, "back")
	}
	toA.Deliver()
	// What was repeated, as an answer came too late, is there more than once.
	if got := slices.Compact(pushed(t, a.Client())); !slices.Equal(got, []string{"first", "back"}) {
		t.Errorf("A did %q, want nothing that was held back", got)
	}
	if got := pushed(t, b.Client()); !slices.Contains(got, "at B") {
		t.Errorf("B did %q", got)
	}
}

// A server that refuses to end connections is not used until nothing of them can come any more. That is told.
func TestAServerThatRefusesToEndConnections(t *testing.T) {
	t.Parallel()
	for _, rights := range [][]any{ // as Redis 6.2 understands them, too
		{"-client", "+client|setname", "+client|id"}, {"-client", "+client|setname", "+client|kill"}, {"-info"},
	} {
		srv := redistest.Start(t)
		must(t, srv.Client().Do(t.Context(), append([]any{"acl", "setuser", "default"}, rights...)...).Err())
		proxy := redistest.StartProxy(t, srv.Addr)
		core, logs := observer.New(zap.ErrorLevel)
		p := way(t, proxy.Addr, time.Minute, func(d *Dialer) { d.trouble = NewTrouble(zap.New(core), false) })
		carriedOut(t, p, "first")
		proxy.CutAll()
		carriedOut(t, p, "nothing was under way")
		proxy.Set(redistest.Cut)
		if err := do(t, p, push("unknown")); err == nil || NeverSent(err) {
			t.Errorf("%v: got %v, want an unknown outcome", rights, err)
		}
		proxy.Set(redistest.Pass)
		err := do(t, p, push("x"))
		for ; logs.Len() == 0; err = do(t, p, push("x")) {
			if err == nil {
				t.Fatalf("%v: something was sent", rights)
			}
		}
		if !NeverSent(err) || !errors.Is(err, errNotEnded) || !strings.Contains(err.Error(), "client|kill") {
			t.Errorf("%v: got %v, want that nothing was sent, and what to do", rights, err)
		}
		u := p.dialer.Unended
		u.mu.Lock()
		for i := range u.all {
			u.all[i].closed = u.all[i].closed.Add(-underWay)
		}
		u.mu.Unlock()
		carriedOut(t, p, "last")
		if left := u.at(""); len(left) > 0 {
			t.Errorf("%v: %v are remembered", rights, left)
		}
	}
}

func TestFewConnectionsAreRemembered(t *testing.T) {
	var u Unended
	for id := range 2 * mostUnended {
		c := newConn(nil, self{"run", int64(id)}, nil, Window)
		u.add(c)
		c.under = []*sent{{}}
		u.add(c)
	}
	if all := u.at("run"); len(all) != mostUnended || all[0].id != mostUnended || len(u.at("other")) != 0 {
		t.Errorf("%d are remembered, the first one %v", len(all), all[0])
	}
}

// When an answer is overdue, that of all that is under way is unknown. What waits goes over the next connection.
func TestAnOverdueAnswerEndsTheConnection(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	proxy := redistest.StartProxy(t, srv.Addr)
	p := way(t, proxy.Addr, 500*time.Millisecond)
	unknown := 0
	for try := 0; unknown == 0 && try < 5; try++ { // jobs that have waited too long before they are sent show nothing
		carriedOut(t, p, "first")
		proxy.StallOne()
		outcomes := make(chan error, 3)
		for i := range cap(outcomes) {
			j := Job{Cmd: push(fmt.Sprint(i)), Queued: time.Now(), Cost: 2 * MaxBatch, Done: func(err error) { outcomes <- err }}
			must(t, p.Put(j))
		}
		for range cap(outcomes) {
			if err := <-outcomes; errors.Is(err, ErrOpTimeout) {
				unknown++
			} else if err != nil && !NeverSent(err) {
				t.Errorf("got %v, want that the answer is overdue", err)
			}
		}
	}
	if unknown == 0 || unknown > Window {
		t.Errorf("of %d the answer was overdue, want that of what was under way", unknown)
	}
	carriedOut(t, p, "next")
}

// Whatever is no reply ends the connection, and the outcome is not known.
func TestMalformedRepliesEndTheConnection(t *testing.T) {
	for _, reply := range []string{
		"\r\n", "x\r\n", "+ok\n", ":1x\r\n", ":\r\n", ":99999999999999999999\r\n", "$-2\r\n", "$3\r\nabcd\r\n",
		"*-2\r\n", "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:1\r\n", "*99999999\r\n", "$99999999\r\n",
		"+" + strings.Repeat("x", readBuffer) + "\r\n", "*1\r\n", "",
	} {
		ours, theirs := net.Pipe()
		p := newPipeline(Dialer{}, Config{Most: MaxBatch, Timeout: time.Minute})
		told := make(chan error, 1)
		must(t, p.Put(Job{Cmd: push("n"), Queued: time.Now(), Done: func(err error) { told <- err }}))
		c := newConn(ours, self{}, nil, Window)
		go func() {
			_, _ = theirs.Read(make([]byte, 1024))
			_, _ = theirs.Write([]byte(reply))
			_ = theirs.Close()
		}()
		p.use(c)
		for _, s := range c.under {
			p.end(s, c.why)
		}
		if err := <-told; err == nil || NeverSent(err) || errors.As(err, new(redis.Error)) {
			t.Errorf("%.40q: got %v, want an unknown outcome", reply, err)
		}
		if !c.lost() || len(c.under) != 1 {
			t.Errorf("%.40q: the connection is used again, or not ended", reply)
		}
	}
}

// What nobody asked for would be taken for the next answer.
func TestAReplyThatNobodyAskedForEndsTheConnection(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	ours, err := net.Dial("tcp", l.Addr().String())
	must(t, err)
	theirs, err := l.Accept()
	must(t, err)
	defer theirs.Close()
	c := newConn(ours, self{}, nil, Window)
	go newPipeline(Dialer{}, Config{Most: MaxBatch, Timeout: time.Minute}).use(c)
	if c.lost() {
		t.Error("a connection that is quiet is not usable")
	}
	_, err = theirs.Write([]byte("+OK\r\n"))
	must(t, err)
	<-c.gone
}
