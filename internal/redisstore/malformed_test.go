package redisstore

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/layout"
)

// babbler is a server that answers each SUBSCRIBE by the next of some replies, the last one for ever.
func babbler(t *testing.T, replies []string) (addr string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	greetings := map[string]string{"hello 2": "*2\r\n+proto\r\n:2", "client setname": "+OK", "client id": ":7"}
	var subscribed atomic.Int64
	one := func(c net.Conn) {
		defer c.Close()
		before := ""
		for lines := bufio.NewScanner(c); lines.Scan(); {
			word := strings.ToLower(lines.Text())
			if word[0] == '$' || word[0] == '*' {
				continue
			}
			answer := greetings[before+" "+word]
			if before == "subscribe" {
				answer = replies[min(int(subscribed.Add(1)), len(replies))-1]
			}
			if before = word; answer != "" {
				_, _ = fmt.Fprint(c, answer, "\r\n")
			}
		}
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go one(c)
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
		"*3\r\n+subscribe\r\n+" + layout.Channel("n") + "\r\n:1",
	})
	s, err := New(Config{Addr: addr, HearTimeout: time.Minute}, zap.NewNop(), nil)
	must(t, err)
	defer s.Close()
	live := make(chan struct{}, 100)
	defer s.Listen("n", lock.Exclusive, func(n lock.Notice) {
		if n.What == lock.NoticeListening {
			live <- struct{}{}
		}
	})()
	select {
	case <-live:
	case <-time.After(time.Minute):
		t.Error("nothing is heard")
	}
}
