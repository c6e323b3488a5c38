package client_test

import (
	"strings"
	"testing"

	"github.com/lockd-io/lockd/client"
)

// What other clients call themselves is shown without what a terminal would take for an order.
func TestTheTextOfADeadlockIsPrintable(t *testing.T) {
	err := &client.DeadlockError{Members: []client.DeadlockMember{
		{Client: "a\x1b[2J\nerror: all is lost", Name: "first"}, {Client: "worker 7", Name: strings.Repeat("n", 500)},
	}}
	text := err.Error()
	if strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("got %q", text)
	}
	if !strings.Contains(text, `; worker 7 waits for "nnn`) || len(text) > 400 {
		t.Errorf("got %q, want the ordinary name as it is and the long one cut", text)
	}
}
