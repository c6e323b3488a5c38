package redisstore

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
)

// All works with a Redis in another region, whose connections take longer to make than an operation may take, and whose
// sentinel is as far away.
func TestAFarRedisWorks(t *testing.T) {
	t.Parallel()
	for _, far := range []struct {
		late, timeout time.Duration
		password      string
		sentinel      bool
		long          bool
	}{
		{150 * time.Millisecond, 300 * time.Millisecond, "", false, false},
		{200 * time.Millisecond, time.Second, "secret", true, false},
		{400 * time.Millisecond, time.Second, "secret", false, true},
		{400 * time.Millisecond, time.Second, "", false, true},
	} {
		t.Run(fmt.Sprintf("%v password %q sentinel %v", far.late, far.password, far.sentinel), func(t *testing.T) {
			if far.long {
				tier.Long(t)
			}
			t.Parallel()
			srv := redistest.Start(t)
			p := redistest.StartProxy(t, srv.Addr)
			cfg := Config{Addr: p.Addr, DB: 1, PasswordNow: always(far.password), OpTimeout: far.timeout}
			if far.sentinel {
				w := redistest.StartSentinel(t, p.Addr, "sentinel auth-pass "+redistest.MasterName+" "+far.password)
				farther := redistest.StartProxy(t, w.Addr)
				farther.Delay(far.late)
				cfg.Addr, cfg.Sentinel = "", &Sentinel{Master: redistest.MasterName, Addrs: []string{farther.Addr}}
			}
			must(t, srv.Client().ConfigSet(t.Context(), "requirepass", far.password).Err())
			p.Delay(far.late)
			useFar(t, p, cfg)
		})
	}
}

// useFar uses a Store for everything, once more after its connections were cut.
func useFar(t *testing.T, p *redistest.Proxy, cfg Config) {
	s := open(t, cfg)
	until(t, "ready", func() error { // an answer that was overdue costs the connection
		_, err := s.Probe(t.Context())
		return err
	})
	heard := make(chan lock.What, 100)
	defer s.Listen("n", lock.Exclusive, func(n lock.Notice) { heard <- n.What })()
	changed := make(chan struct{}, 1)
	defer s.Watch("n", func(n lock.Notice) {
		if n.What == lock.NoticeChanged {
			select {
			case changed <- struct{}{}:
			default:
			}
		}
	})()
	for range 2 {
		await(t, heard, lock.NoticeListening)
		until(t, "see", func() error {
			if seen, err := s.See(t.Context(), "n"); err != nil || !seen.Tracked {
				return fmt.Errorf("got %v, %w, want to be told of changes", seen, err)
			}
			return nil
		})
		select {
		case <-changed: // of the connection
		default:
		}
		var g lock.Grant
		until(t, "acquire", func() (err error) {
			g, err = lock.Await(t.Context(), s.StartAcquire, claim("n", "o"))
			return err
		})
		select {
		case <-changed:
		case <-time.After(10 * time.Second):
			t.Fatal("a watcher is not told that the name was taken")
		}
		until(t, "renew", func() error { return renewOne(t, s, "n", "o", g.Fence) })
		until(t, "look", func() error { _, err := s.Look(t.Context(), "n"); return err })
		until(t, "list", func() error {
			page, _, err := s.List(t.Context(), "", "", 10)
			if err == nil && len(page) != 1 {
				t.Fatalf("list: got %v, want one", page)
			}
			return err
		})
		until(t, "release", func() error {
			_, err := lock.Await(t.Context(), s.StartRelease, releaseOf("n", "o", g.Fence))
			if errors.Is(err, lock.ErrNotHeld) { // an answer was late; that it was released is heard
				return nil
			}
			return err
		})
		await(t, heard, lock.NoticeReleased)
		p.CutAll()
		until(t, "probe", func() error { _, err := s.Probe(t.Context()); return err })
	}
}

// What waits for a connection is bounded like everything else, and was surely not done.
func TestAConnectionThatIsNotMadeIsUnavailableInTime(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	srv.Pause()
	defer srv.Resume()
	const patience = time.Minute
	cfg := Config{Addr: srv.Addr, OpTimeout: 300 * time.Millisecond, ConnectTimeout: patience}
	s, err := New(cfg, zap.NewNop(), nil) // does not wait for a connection
	must(t, err)
	defer s.Close()
	for what, do := range map[string]func() error{
		"acquire": func() error { return attempt(t, s, claim("n", "o")) },
		"start": func() error {
			done := make(chan error, 1)
			s.StartAcquire(claim("n", "o"), func(_ lock.Grant, err error) { done <- err })
			return <-done
		},
		"renew": func() error { return renewOne(t, s, "n", "o", 1) },
		"probe": func() error { _, err := s.Probe(t.Context()); return err },
	} {
		begun := time.Now()
		if wantErr(t, do(), lock.ErrUnavailable); time.Since(begun) > patience/2 {
			t.Errorf("%s took %v", what, time.Since(begun))
		}
	}
}
