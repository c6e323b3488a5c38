package redlock

import (
	"strconv"
	"testing"
	"time"
)

// To note one hold more costs the same however many there are.
func TestManyHoldsAreInDoubtQuickly(t *testing.T) {
	d := memory[holdingAt, struct{}]{most: maxKnown}
	begun := time.Now()
	for i := range maxKnown {
		d.put(holdingAt{0, holding{name: strconv.Itoa(i)}}, struct{}{}, underWay)
	}
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("it took %v", took)
	}
	if !d.has(holdingAt{0, holding{name: "0"}}) {
		t.Error("the first one is forgotten")
	}
}
