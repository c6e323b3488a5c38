package limits

import (
	"testing"
	"time"
)

// Also on a machine with many processors.
func TestANewAccountOwesNothing(t *testing.T) {
	for _, share := range []float64{0.1, 1, 64} {
		var a Account
		r := Rate{Share: share, Burst: time.Second, MostDebt: time.Minute}
		if got := a.Owes(r, time.Now()); got != -r.Burst {
			t.Errorf("with a share of %v it owes %v, want %v", share, got, -r.Burst)
		}
	}
}

// A slot goes to one session: a session that waits for its client does not get it a second time.
func TestASlotIsGivenOnce(t *testing.T) {
	ts := newTenants(Limits{})
	s, err := ts.Arrive("a")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := ts.Begin(s, "a"); got != s || err != nil {
		t.Fatalf("got %v, %v", got, err)
	}
	s.Part()
	if got, err := ts.Begin(s, "a"); got != nil || err != nil {
		t.Errorf("got %v, %v, want none", got, err)
	}
	s.End()
	if ts.all != 0 || ts.parted != 0 || len(ts.sessions) != 0 {
		t.Errorf("%d slots, %d parted sessions and %v are left", ts.all, ts.parted, ts.sessions)
	}
}
