package renew

import (
	"slices"
	"strconv"
	"sync"
)

// words are those of a call with very many of them. All texts that have to be made are parts of one, and the words only
// point to them, so their number costs no allocations.
type words struct {
	made  []byte
	ends  []int    // where the texts that are made end; for others what follows
	texts []string // empty for those that are made
	words []any    // what go-redis takes
}

// wordBytes is about how long a word is that has to be made.
const wordBytes = 8

var usedWords = sync.Pool{New: func() any { return new(words) }}

// newWords has room for n words.
func newWords(n int) *words {
	w := usedWords.Get().(*words)
	w.made, w.ends, w.texts = slices.Grow(w.made, n*wordBytes), slices.Grow(w.ends, n), slices.Grow(w.texts, n)
	return w
}

// done gives the words back, when nobody can look at them any more.
func (w *words) done() {
	clear(w.texts)
	w.made, w.ends, w.texts, w.words = w.made[:0], w.ends[:0], w.texts[:0], w.words[:0]
	usedWords.Put(w)
}

// text adds a word that is there.
func (w *words) text(t string) {
	w.texts = append(w.texts, t)
	w.ends = append(w.ends, len(w.made))
}

// end adds what was made since the word before.
func (w *words) end() { w.text("") }

func (w *words) number(n int64) {
	w.made = strconv.AppendInt(w.made, n, 10)
	w.end()
}

// all are the words, as go-redis takes them.
func (w *words) all() []any {
	made, from := string(w.made), 0
	for i := range w.texts {
		if to := w.ends[i]; to > from {
			w.texts[i] = made[from:to]
			from = to
		}
		w.words = append(w.words, &w.texts[i])
	}
	return w.words
}
