package limits

import "slices"

// First keeps the first of many things in an order, without sorting all. It has no more than twice Most of them, and to
// add one costs the logarithm of Most.
type First[T any] struct {
	Most    int
	Compare func(a, b T) int
	kept    []T
	more    bool // some were left out: the first Most that are kept are sorted, and all others come before their last one
}

// Add adds a thing. It says whether it may be one of the first: if it is not, nothing is that comes behind it.
func (f *First[T]) Add(thing T) bool {
	if !f.Wants(thing) {
		return false
	}
	if f.kept = append(f.kept, thing); len(f.kept) == 2*f.Most {
		f.cut()
	}
	return true
}

// Wants says whether a thing may be one of the first, before it is added.
func (f *First[T]) Wants(thing T) bool { return !f.more || f.Compare(thing, f.kept[f.Most-1]) < 0 }

func (f *First[T]) cut() {
	slices.SortFunc(f.kept, f.Compare)
	if len(f.kept) > f.Most {
		f.kept, f.more = f.kept[:f.Most], true
	}
}

// All are the first ones in their order, and whether there are more.
func (f *First[T]) All() (all []T, more bool) {
	f.cut()
	return f.kept, f.more
}
