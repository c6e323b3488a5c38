package hub

import (
	"math"
	"strconv"
)

// Passed calls then, later, when all that Redis published before was passed on to the listeners, or when that cannot be
// known because the connection was lost or Redis refused PING. Passed does not wait for the network. If the hub is
// closed, then may never be called.
func (h *Hub) Passed(then func()) {
	h.mu.Lock()
	h.unasked = append(h.unasked, then)
	h.mu.Unlock()
	h.poke()
}

// question is a PING with a number. Redis answers it behind all that it published before.
type question struct {
	number uint64
	then   func()
}

// ask asks a question. Only the writer calls it.
func (h *Hub) ask(number uint64) {
	if number == 0 {
		return
	}
	if err := h.conn.Ping(h.ctx, strconv.FormatUint(number, 10)); err != nil {
		h.answered(number) // the connection is gone
	}
}

// last is the number of the last question. The regular PING carries it, too: the connection on which the question was
// asked may have been replaced, without the reader noticing.
func (h *Hub) last() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strconv.FormatUint(h.questions, 10)
}

// unanswered gives up all questions: their connection is lost, or Redis refused one.
func (h *Hub) unanswered() { h.answered(math.MaxUint64) }

// answered notes that a question was answered, and so all questions before it.
func (h *Hub) answered(number uint64) {
	h.mu.Lock()
	n := 0
	for n < len(h.asked) && h.asked[n].number <= number {
		n++
	}
	over := h.asked[:n:n]
	if h.asked = h.asked[n:]; len(h.asked) == 0 {
		h.asked = nil
	}
	h.mu.Unlock()
	for _, q := range over {
		q.then()
	}
}
