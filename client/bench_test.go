package client_test

import (
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/lockd-io/lockd/client"
)

// One caller at a time: the way there and back twice.
func BenchmarkPair(b *testing.B) {
	c := dial(b, addr)
	b.ReportAllocs()
	for b.Loop() {
		pair(b, c, "n")
	}
}

// 256 callers on one stream, each with a name of its own.
func BenchmarkPairs256(b *testing.B) {
	c := dial(b, addr)
	var n atomic.Int64
	b.ReportAllocs()
	b.SetParallelism(128)
	b.RunParallel(func(pb *testing.PB) {
		name := fmt.Sprint("bench:", n.Add(1))
		for pb.Next() {
			pair(b, c, name)
		}
	})
}

// Asking a held lock whether it still is, as workers do between two steps.
func BenchmarkErr(b *testing.B) {
	l := mustLock(b, dial(b, addr), "err")
	ctx := l.Context()
	b.ReportAllocs()
	for b.Loop() {
		if err := ctx.Err(); err != nil {
			b.Fatal(err)
		}
	}
}

func pair(b testing.TB, c *client.Client, name string) {
	l, err := c.Lock(b.Context(), name)
	if err != nil {
		b.Error(err)
		return
	}
	if err := l.Unlock(b.Context()); err != nil {
		b.Error(err)
	}
}
