package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/client"
)

// sdkMovers are clients of the SDK.
type sdkMovers struct {
	locks  []*client.Lock
	lost   atomic.Bool // the replica is gone
	moved  chan time.Time
	ended  atomic.Int64 // sessions
	closed sync.WaitGroup
	all    []*client.Client
}

func (m *sdkMovers) open(ctx context.Context, addrs []string, n int) error {
	m.moved = make(chan time.Time, n)
	m.locks, m.all = make([]*client.Lock, n), make([]*client.Client, n)
	return openEach(n, func(i int) error {
		c, err := client.Dial(strings.Join(addrs, ","), client.WithName("mover"), client.WithOnStatus(m.heard))
		if err != nil {
			return err
		}
		m.all[i] = c
		m.locks[i], err = c.Lock(ctx, fmt.Sprint("mover:", i))
		return err
	})
}

func (m *sdkMovers) heard(s client.Status) {
	switch {
	case !m.lost.Load():
	case s.State == client.Connected:
		select {
		case m.moved <- time.Now():
		default: // it came more than once
		}
	case s.State == client.Disconnected && !errors.Is(s.Err, client.ErrClosed):
		m.ended.Add(1)
	}
}

func (m *sdkMovers) who() string { return "clients of the Go SDK" }

func (m *sdkMovers) lose() <-chan time.Time {
	m.lost.Store(true)
	return m.moved
}

func (m *sdkMovers) gone() (sessions, locks int) {
	for _, l := range m.locks {
		if l.Err() != nil {
			locks++
		}
	}
	return int(m.ended.Load()), locks
}

func (m *sdkMovers) close() {
	m.lost.Store(false)
	for _, c := range m.all {
		if c != nil {
			m.closed.Go(func() { _ = c.Close() })
		}
	}
	m.closed.Wait()
}
