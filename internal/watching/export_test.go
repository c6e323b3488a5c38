package watching

import "time"

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
	h.plant(name, func(w *watch) { w.told, w.gone = recentFences{}, recentHolds{} })
}

// DropDoubts is a planted bug: each end in doubt is taken for one that was told.
func (h *Hub) DropDoubts(name string) {
	h.plant(name, func(w *watch) {
		for _, d := range w.doubts {
			w.told.add(d.hold.fence)
		}
		w.doubts = nil
	})
}

// HurryDoubts is a planted bug: nobody has time to tell of an end that was only seen.
func (h *Hub) HurryDoubts(name string) {
	h.plant(name, func(w *watch) {
		for i := range w.doubts {
			w.doubts[i].due = time.Now()
		}
		w.settleLocked(time.Now())
	})
}
