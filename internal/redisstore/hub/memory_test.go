package hub

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/redistest"
)

// Names that are listened to and forgotten leave nothing behind, also while some other name is listened to.
func TestForgottenNamesLeaveNoMemoryBehind(t *testing.T) {
	h := New(redis.Options{Addr: redistest.Start(t).Addr, Protocol: 2, DialTimeout: time.Minute}, Config{
		Linger: 10 * time.Millisecond, Patience: time.Minute,
		Metrics: Metrics{prometheus.NewGauge(prometheus.GaugeOpts{}), prometheus.NewCounter(prometheus.CounterOpts{})},
	}, zap.NewNop())
	defer h.Close()
	live := make(chan struct{}, 1)
	h.Listen("stays", func(Heard) { live <- struct{}{} })
	<-live
	var stops []func()
	for i := range 1000 {
		stops = append(stops, h.Listen(fmt.Sprint("name ", i), func(Heard) {}))
	}
	var known []weak.Pointer[topic]
	h.mu.Lock()
	for channel, topic := range h.topics {
		if strings.Contains(channel, "name ") {
			known = append(known, weak.Make(topic))
		}
	}
	h.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	h.mu.Lock() // when they are due all at once, they are not as many goroutines, whose memory Go keeps
	time.Sleep(10 * h.Linger)
	if n := runtime.NumGoroutine(); n > 100 {
		t.Errorf("there are %d goroutines", n)
	}
	h.idle = append(h.idle, idle{&topic{}, time.Now().Add(time.Hour)}) // there is always one that will be dropped
	h.mu.Unlock()
	left := len(known)
	for end := time.Now().Add(15 * time.Second); left > 0 && time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		runtime.GC()
		left = 0
		for _, p := range known {
			if p.Value() != nil {
				left++
			}
		}
	}
	if left > 0 || len(known) != 1000 {
		t.Errorf("%d of %d are still there", left, len(known))
	}
}
