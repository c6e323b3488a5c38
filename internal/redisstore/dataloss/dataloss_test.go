package dataloss

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.uber.org/zap/zaptest"

	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

func TestMain(m *testing.M) {
	redistest.MostlyWaits()
	os.Exit(m.Run())
}

// observer is a Detector with a connection.
type observer struct {
	*Detector
	t *testing.T
	c *redis.Client
}

func watch(t *testing.T, srv *redistest.Server) *observer {
	return &observer{New(func() string { return "v" }, zaptest.NewLogger(t)), t, srv.Client()}
}

func (o *observer) via(ctx context.Context, cmd *redis.Cmd) error { return o.c.Process(ctx, cmd) }

func (o *observer) do(err error) {
	o.t.Helper()
	harness.Must(o.t, err)
}

func (o *observer) meet() { o.t.Helper(); o.do(o.Meet(o.t.Context(), o.c)) }

// mark has the server be known as new.
func (o *observer) mark() { o.t.Helper(); o.do(o.c.Set(o.t.Context(), "v", Mark, 0).Err()) }

func (o *observer) check() { o.t.Helper(); o.do(o.Check(o.t.Context(), o.via)) }

// is checks what is known.
func (o *observer) is(what string, forgot, marked bool) {
	o.t.Helper()
	since, got := o.DataLoss()
	if got != forgot || o.Marked() != marked {
		o.t.Errorf("%s: forgot %t, marked %t; want %t, %t", what, got, o.Marked(), forgot, marked)
	}
	if forgot && (since.After(time.Now().Add(time.Second)) || time.Since(since) > time.Minute) {
		o.t.Errorf("%s: since %v", what, time.Since(since))
	}
}

var durable = []string{"--appendonly", "yes", "--appendfsync", "always"}

func TestANewServerLacksNothingOnceThatIsConfirmed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	a, b := watch(t, srv), watch(t, srv)
	a.is("not met", true, false)
	a.mark()
	a.meet()
	a.is("met", true, true)
	a.check()
	a.is("it may turn out to be new", true, true)
	a.do(a.ConfirmNew(t.Context(), a.via))
	a.is("confirmed", false, false)
	b.meet()
	b.is("to another replica", false, false)
	srv.Restart()
	b.do(b.ConfirmNew(t.Context(), b.via)) // too late: it is of the run that was met
	b.meet()
	b.is("restarted empty", true, false)
}

func TestAServerThatMayHaveForgottenSaysSo(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		args   []string
		do     func(t *testing.T, srv *redistest.Server)
		forgot bool
	}{
		"restarted with all writes on its disk": {
			durable,
			func(_ *testing.T, srv *redistest.Server) { srv.Kill(); srv.Restart() }, false,
		},
		"restarted with some": {
			[]string{"--appendonly", "yes", "--appendfsync", "everysec"},
			func(t *testing.T, srv *redistest.Server) {
				harness.Until(t, "the run key is in the file", func() bool {
					info := srv.Client().Info(t.Context(), "persistence").Val()
					return strings.Contains(info, "aof_buffer_length:0\r")
				})
				srv.Kill()
				srv.Restart()
			}, true,
		},
		"a replica that was promoted": {durable, func(t *testing.T, srv *redistest.Server) {
			c := srv.Client()
			master := redistest.Start(t)
			host, port := "127.0.0.1", master.Addr[len("127.0.0.1:"):]
			harness.Must(t, master.Client().Set(t.Context(), "v", "another-run 0", 0).Err())
			for _, step := range [][]any{{"replicaof", host, port}, {"wait-for-data"}, {"replicaof", "no", "one"}} {
				if step[0] == "wait-for-data" {
					for c.Get(t.Context(), "v").Val() != "another-run 0" {
						time.Sleep(10 * time.Millisecond)
					}
					continue
				}
				harness.Must(t, c.Do(t.Context(), step...).Err())
			}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := redistest.Start(t, row.args...)
			a := watch(t, srv)
			a.mark()
			a.meet()
			a.do(a.ConfirmNew(t.Context(), a.via))
			a.is("confirmed", false, false)
			row.do(t, srv)
			a.meet()
			a.is("met again", true, false) // there is no run key of this run yet
			begun := time.Now()
			a.check()
			a.is("checked", row.forgot, false)
			b := watch(t, srv)
			b.meet()
			asked := time.Since(begun) // an answer may be read so late
			b.is("to another replica", row.forgot, false)
			x, _ := a.DataLoss()
			y, _ := b.DataLoss()
			if d := x.Sub(y); row.forgot && d.Abs() > asked+100*time.Millisecond {
				t.Errorf("replicas disagree by %v", d)
			}
		})
	}
}

func TestAnEmptiedServerIsNoticed(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	a, late := watch(t, srv), watch(t, srv)
	a.mark()
	a.meet()
	a.do(a.ConfirmNew(t.Context(), a.via))
	a.do(a.c.FlushAll(t.Context()).Err())
	late.meet()
	late.do(late.ConfirmNew(t.Context(), late.via)) // by a replica that comes now
	late.is("to another replica", true, false)
	a.check()
	a.is("emptied", true, false)
	if v := a.c.Get(t.Context(), "v").Val(); v == "" || v == Mark {
		t.Errorf("the run key is %q, want one that says since when", v)
	}
}

// The mark does not count for long: else it would say of data that were lost later that nobody had them.
func TestAMarkThatIsNotUsedIsForgotten(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, durable...)
	a := watch(t, srv)
	a.mark()
	a.meet()
	a.mu.Lock()
	a.since = a.since.Add(-markTime)
	a.mu.Unlock()
	a.check()
	a.is("marked alone", true, false)
	a.do(a.ConfirmNew(t.Context(), a.via))
	a.is("confirmed too late", true, false)
}
