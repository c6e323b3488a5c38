package limits

import "slices"

// First keeps the first Most of many things in an order, without sorting all. It keeps at most 2*Most of them, and Add
// costs the logarithm of Most.
type First[T any] struct {
	Most    int
	Compare func(a, b T) int
	kept    []T
	more    bool // some were left out: kept[:Most] is sorted, and all behind it come before kept[Most-1]
}

// Add adds a thing, and says whether it may be one of the first. If it is not, no thing behind it in the order is.
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

// All returns the first Most things in their order, and whether there were more.
func (f *First[T]) All() (all []T, more bool) {
	f.cut()
	return f.kept, f.more
}
