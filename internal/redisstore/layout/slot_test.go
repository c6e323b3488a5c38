package layout

import "testing"

// The numbers are what CLUSTER KEYSLOT of Redis 7.0 answers.
func TestSlot(t *testing.T) {
	for key, want := range map[string]int{
		"": 0, "a": 15495, "123456789": 12739, "{a}b": 15495, "x{a}{b}": 15495, "{}a": 10875, "a{": 14311, "{{a}}": 10276,
		"a}b{c}": 7365,
	} {
		if got := Slot(key); got != want {
			t.Errorf("%q: got %d, want %d", key, got, want)
		}
	}
}

func TestInOneSlot(t *testing.T) {
	for n, want := range map[string]bool{
		"a": true, "{a}": true, "{a}b": true, "x{a}y": true, "a:b": true,
		"{}": false, "{}a": false, "a{": false, "a}": false, "}{": false, "{{a}}": true, "a}b{c}": true,
	} {
		if got := InOneSlot(n); got != want {
			t.Errorf("%q: got %t, want %t", n, got, want)
		}
	}
}
