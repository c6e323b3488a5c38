package broker_test

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestUnaryCallsOfAnAddressAtTheStoreAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.CallsPerAddress = 2
	inWorldWith(t, cfg, func(w *world) {
		admit := func(peer string) func() {
			done, err := w.b.Admit(w.t.Context(), peer)
			if err != nil {
				w.t.Fatal(err)
			}
			return done
		}
		first, second := admit("10.0.0.1:1"), admit("10.0.0.1:2")
		begun := time.Now()
		if _, err := w.b.Admit(w.t.Context(), "10.0.0.1:3"); !isQuota(err, "calls_per_address") || time.Since(begun) != time.Second {
			w.t.Errorf("a third: got %v after %v, want a refusal after a second", err, time.Since(begun))
		}
		admit("10.0.0.2:1")() // others are not concerned
		leaves, cancel := context.WithCancel(w.t.Context())
		cancel()
		if _, err := w.b.Admit(leaves, "10.0.0.1:3"); !errors.Is(err, context.Canceled) {
			w.t.Errorf("a caller that has gone: got %v", err)
		}
		go func() {
			time.Sleep(time.Second / 2)
			first()
		}()
		third := admit("10.0.0.1:3") // waits for its turn
		if waited := time.Since(begun); waited != 1500*time.Millisecond {
			w.t.Errorf("it was let in after %v, want half a second later", waited-time.Second)
		}
		second()
		third()
		admit("10.0.0.1:1")()
	})
}

func TestUnaryCallsOfAnAddressThatWaitAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.WaitsPerAddress = 2
	inWorldWith(t, cfg, func(w *world) {
		admit := func(peer string) func() {
			done, err := w.b.AdmitWait(peer)
			if err != nil {
				w.t.Fatal(err)
			}
			return done
		}
		first := admit("10.0.0.1:1")
		admit("10.0.0.1:2")
		if _, err := w.b.AdmitWait("10.0.0.1:3"); !isQuota(err, "waits_per_address") {
			w.t.Errorf("a third: got %v, want a refusal", err)
		}
		admit("10.0.0.2:1")() // others are not concerned
		first()
		admit("10.0.0.1:3")
	})
}
