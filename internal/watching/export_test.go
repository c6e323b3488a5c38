package watching

// plant changes what is remembered of a name: a planted bug.
func (h *Hub) plant(name string, bug func(w *watch)) {
	h.mu.Lock()
	w := h.names[name]
	h.mu.Unlock()
	if w != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		bug(w)
	}
}

// ForgetEnds is a planted bug: it is not known any more which ends were told.
func (h *Hub) ForgetEnds(name string) {
	h.plant(name, func(w *watch) { w.told = recent[key, uint64]{} })
}

// DropEnds is a planted bug: the end of each hold that was seen is taken for one that was told.
func (h *Hub) DropEnds(name string) {
	h.plant(name, func(w *watch) {
		for _, s := range w.seen {
			w.told.put(s.end(0).key(), w.looks)
		}
	})
}
