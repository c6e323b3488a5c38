package app

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestCleanupsRunLastFirstAndOnce(t *testing.T) {
	var c cleanups
	var got []string
	for _, name := range []string{"a", "b", "c"} {
		c.add(name, time.Second, func(context.Context) error {
			got = append(got, name)
			return errors.New(name + " failed")
		})
	}
	err := c.run(t.Context())
	if want := []string{"c", "b", "a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for _, want := range []string{"stop a: a failed", "stop b: b failed", "stop c: c failed"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
	if err := c.run(t.Context()); err != nil || len(got) != 3 {
		t.Errorf("the second run did something: %v, %v", got, err)
	}
}

func TestAStuckCleanupDoesNotHoldUpTheOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cleanups
		reached := false
		unstick := make(chan struct{})
		c.add("first", time.Minute, func(context.Context) error { reached = true; return nil })
		c.add("stuck", time.Second, func(context.Context) error { <-unstick; return nil })
		began := time.Now()
		err := c.run(t.Context())
		if err == nil || !strings.Contains(err.Error(), "stop stuck: not done within 1s") {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); !reached || took != time.Second+closeTimeout/20 {
			t.Errorf("the other step was reached: %v, after %v", reached, took)
		}
		close(unstick)
	})
}

func TestTheWholeBoundHoldsForEachCleanup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c cleanups
		for range 3 {
			c.add("slow", time.Minute, func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) })
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if err := c.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
		if took := time.Since(began); took != time.Second {
			t.Errorf("took %v, want 1s", took)
		}
	})
}
