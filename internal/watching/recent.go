package watching

// recent remembers what was put last.
type recent[K comparable, V any] struct {
	values map[K]V
	order  []K
}

// maxRecent bounds it.
const maxRecent = 4096

func (r *recent[K, V]) get(k K) (v V, there bool) { v, there = r.values[k]; return v, there }

func (r *recent[K, V]) has(k K) bool { _, there := r.values[k]; return there }

func (r *recent[K, V]) put(k K, v V) {
	if r.values == nil {
		r.values = make(map[K]V)
	}
	r.values[k] = v
	r.order = append(r.order, k)
	if len(r.order) > maxRecent {
		delete(r.values, r.order[0])
		r.order = r.order[1:]
	}
}

// forget leaves the key in the order, so it is bounded as if it were there.
func (r *recent[K, V]) forget(k K) { delete(r.values, k) }
