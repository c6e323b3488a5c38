package browser

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
)

// crowded is a replica with a console, without a clients file.
func crowded(t *testing.T) (d *harness.Lockd, console string) {
	t.Helper()
	d = harness.StartLockd(t, lockdBin, redistest.Start(t).Addr, "LOCKD_CONSOLE_LISTEN=127.0.0.1:0",
		"LOCKD_LIMITS_SESSIONS_PER_ADDRESS=0", "LOCKD_LIMITS_LOCKS_PER_ADDRESS=0")
	console, _ = d.Logged("lockd serves")["console"].(string)
	return d, strings.TrimSuffix(console, "/")
}

// 10,000 locks and 1,000 sessions are there within a second, in a browser.
func TestManyLocksAndSessions(t *testing.T) {
	tier.Long(t)
	c := startChrome(t)
	d, at := crowded(t)
	const sessions, locks = 1000, 10
	var wg sync.WaitGroup
	slots := make(chan struct{}, 50)
	for i := range sessions {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			program, err := client.Dial(d.Addr, client.WithName(fmt.Sprintf("program-%d", i)))
			if err != nil {
				t.Error(err)
				return
			}
			t.Cleanup(func() { _ = program.Close() })
			for j := range locks {
				if _, err := program.Lock(t.Context(), fmt.Sprintf("lock:%d:%d", i, j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	for path, text := range map[string]string{
		"/": "on this page", "/?prefix=lock:7": "lock:7", "/sessions": "200 sessions", "/lock?name=lock:500:5": "program-500",
		"/blockers": "Nobody waits", "/health": "10000", "/clients": "everybody",
	} {
		began := time.Now()
		c.open(at + path)
		c.shows(text)
		took := time.Since(began)
		t.Logf("%s took %v", path, took)
		if took > time.Second {
			t.Errorf("%s took %v, want a second at most", path, took)
		}
	}
}

// 500 pages that are open cost the clients of the same replica less than a tenth.
func TestOpenPagesCostANeighbourLittle(t *testing.T) {
	tier.Long(t)
	d, at := crowded(t)
	neighbour, err := client.Dial(d.Addr)
	harness.Must(t, err)
	defer func() { _ = neighbour.Close() }()
	rate := func() float64 {
		const each = 5 * time.Second
		n := 0
		for end := time.Now().Add(each); time.Now().Before(end); n++ {
			l, err := neighbour.Lock(t.Context(), "neighbour")
			harness.Must(t, err)
			harness.Must(t, l.Unlock(t.Context()))
		}
		return float64(n) / each.Seconds()
	}
	var alone, crowd float64
	for range 4 { // what else the machine does is shared by both
		alone += rate()
		end := openPages(t, at, 500)
		crowd += rate()
		end()
	}
	t.Logf("the neighbour locks %.0f times a second alone, %.0f beside 500 pages: %.1f %% less",
		alone/4, crowd/4, 100*(1-crowd/alone))
	if crowd < 0.9*alone {
		t.Error("500 pages cost a neighbour a tenth or more")
	}
}

// openPages opens so many pages, and reads what they are told until end.
func openPages(t *testing.T, at string, n int) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	paths := []string{"/live/", "/live/sessions", "/live/blockers", "/live/health", "/live/lock?name=neighbour"}
	c := http.Client{Transport: &http.Transport{MaxConnsPerHost: n}}
	var wg sync.WaitGroup
	for i := range n {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, at+paths[i%len(paths)], nil)
		harness.Must(t, err)
		resp, err := c.Do(r)
		harness.Must(t, err)
		if resp.StatusCode != http.StatusOK {
			t.Fatalf("page %d: %s", i, resp.Status)
		}
		wg.Go(func() {
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		})
	}
	return func() { cancel(); wg.Wait() }
}
