package hub

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"go.uber.org/zap"
)

// babbler is a server that answers SUBSCRIBE on each connection by the next of some replies, the last one for ever.
func babbler(t *testing.T, replies []string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for i := 0; ; i++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			subscribed := replies[min(i, len(replies)-1)]
			answers := strings.NewReplacer(
				"hello 2", "*2\r\n+proto\r\n:2\r\n", "client setname", "+OK\r\n", "client id", ":7\r\n",
				"subscribe n", subscribed+"\r\n",
			)
			go func() {
				defer c.Close()
				before := ""
				for lines := bufio.NewScanner(c); lines.Scan(); {
					word := strings.ToLower(lines.Text())
					if word[0] == '$' || word[0] == '*' {
						continue
					}
					two := before + " " + word
					if answer := answers.Replace(two); answer != two {
						_, _ = fmt.Fprint(c, answer)
					}
					before = word
				}
			}()
		}
	}()
	return l.Addr().String()
}

// go-redis panics at messages of a wrong shape. They cost the connection, and the next one is heard.
func TestMalformedMessagesCostTheConnectionOnly(t *testing.T) {
	t.Parallel()
	addr := babbler(t, []string{
		"$9999999999999", "*-7", "*0", "*1\r\n+subscribe", "*1\r\n:1", "*2\r\n:1\r\n:1", "*2\r\n+subscribe\r\n+n",
		"*3\r\n+subscribe\r\n+n\r\n+1", "*2\r\n+message\r\n+n", "*3\r\n+message\r\n:1\r\n+x",
		"*3\r\n+smessage\r\n+n\r\n*1\r\n:1", "*3\r\n+pmessage\r\n+n\r\n+x", "*2\r\n+pong\r\n:1", "*1\r\n+pong",
		"*3\r\n+subscribe\r\n+n\r\n:1",
	})
	o := redis.Options{Addr: addr, Protocol: 2, DialTimeout: time.Minute, DialerRetries: 1, DisableIdentity: true}
	h := New(o, Config{
		Linger: time.Minute, Patience: time.Minute,
		Metrics: Metrics{prometheus.NewGauge(prometheus.GaugeOpts{}), prometheus.NewCounter(prometheus.CounterOpts{})},
	}, zap.NewNop())
	defer h.Close()
	live := make(chan struct{}, 100)
	h.Listen("n", func(what Heard) {
		if what.Live {
			live <- struct{}{}
		}
	})
	select {
	case <-live:
	case <-time.After(time.Minute):
		t.Error("nothing is heard")
	}
}
