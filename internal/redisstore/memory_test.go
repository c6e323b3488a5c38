package redisstore

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redistest"
)

// Names that are listened to and forgotten leave nothing behind, also while some other name is listened to.
func TestForgottenNamesLeaveNoMemoryBehind(t *testing.T) {
	srv := redistest.Start(t)
	cfg := quick(srv)
	cfg.Linger = 10 * time.Millisecond
	s := open(t, cfg)
	listen(t, s, "stays")
	var stops []func()
	for i := range 1000 {
		stops = append(stops, s.Listen(fmt.Sprint("name ", i), lock.Exclusive, func(lock.Notice) {}))
	}
	var known []weak.Pointer[topic]
	s.hub.mu.Lock()
	for channel, topic := range s.hub.topics {
		if strings.Contains(channel, "name ") {
			known = append(known, weak.Make(topic))
		}
	}
	s.hub.mu.Unlock()
	for _, stop := range stops {
		stop()
	}
	until(t, "all is forgotten", func() error {
		runtime.GC()
		left := 0
		for _, p := range known {
			if p.Value() != nil {
				left++
			}
		}
		if left > 0 {
			return fmt.Errorf("%d of %d are still there", left, len(known))
		}
		return nil
	})
}
