package redisson

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/test/harness"
)

// puppetEnv makes this program a client of the lockd at that address, instead of a test.
const puppetEnv = "LOCKD_REDISSON_PUPPET"

// puppet is a process with a client of lockd, made to be killed.
type puppet struct {
	*proctest.Process
	t    *testing.T
	said chan string
}

// startPuppet has a process lock several things, each KIND:NAME, and hold them until it is killed.
func startPuppet(s *stage, things ...string) *puppet {
	s.t.Helper()
	p := &puppet{t: s.t, said: make(chan string, len(things))}
	p.Process = proctest.Command(os.Args[0], []string{puppetEnv + "=" + s.lockd.Addr},
		append([]string{"-test.run=^$"}, things...)...)
	if err := p.Talk(func(line string) { p.said <- line }); err != nil {
		s.t.Fatal(err)
	}
	p.Start(s.t)
	return p
}

// holds waits until the puppet has so many locks.
func (p *puppet) holds(n int) {
	p.t.Helper()
	for range n {
		if said := harness.Soon(p.t, "the puppet has its locks", p.said); strings.Contains(said, " ") {
			p.t.Fatal(said)
		}
	}
}

func puppetMain(addr string) int {
	c, err := client.Dial(addr)
	if err != nil {
		fmt.Println("dial:", err)
		return 1
	}
	var wg sync.WaitGroup
	for _, thing := range flag.Args() {
		name, on, _ := strings.Cut(thing, ":")
		for _, k := range append(kinds, kind{name: "permit", opts: permits(1, 0).opts}) {
			if k.name == name {
				wg.Go(func() {
					if _, err := c.Lock(context.Background(), on, k.opts...); err != nil {
						fmt.Println("lock:", err)
						return
					}
					fmt.Println(thing)
				})
			}
		}
	}
	wg.Wait()
	select {}
}
