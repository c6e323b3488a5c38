package redisson

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/internal/proctest"
)

// puppetEnv makes this program a client of the lockd at that address, instead of a test.
const puppetEnv = "LOCKD_REDISSON_PUPPET"

// startPuppet has a process with a client of lockd lock several names, and hold them until it is killed.
func startPuppet(s *stage, things map[string]kind) *proctest.Process {
	s.t.Helper()
	args := []string{"-test.run=^$"}
	for name, k := range things {
		args = append(args, k.name+":"+name)
	}
	return proctest.Start(s.t, os.Args[0], []string{puppetEnv + "=" + s.lockd.Addr}, args...)
}

func puppetMain(addr string) int {
	c, err := client.Dial(addr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "dial:", err)
		return 1
	}
	var wg sync.WaitGroup
	for _, thing := range flag.Args() {
		name, on, _ := strings.Cut(thing, ":")
		for _, k := range kinds {
			if k.name == name {
				wg.Go(func() {
					if _, err := c.Lock(context.Background(), on, k.opts...); err != nil {
						fmt.Fprintln(os.Stderr, "lock:", err)
					}
				})
			}
		}
	}
	wg.Wait()
	select {}
}
