package admission

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Each name that is used leaves keys in the store, for as long as its fence is kept. A tenant may use so many names in
// an hour that it did not use in this hour or the one before.

const (
	// namesFor is how long names are counted together.
	namesFor = time.Hour
	// firstNames is how many the first filter of a tenant has room for. Each further one has room for four times as many.
	firstNames = 1 << 10
	// bitsPerName and probes make about one new name in forty seem known. It is not counted then.
	bitsPerName, probes = 8, 4
	// mostBits bounds the filters of all tenants, 32 MiB. When they have no room, further names fill the last one up, so
	// that more and more seem known.
	mostBits = 32 << 23
)

// naming is who used which names lately.
type naming struct {
	mu      sync.Mutex // guards the fields below
	tenants map[lock.Tenant]*names
	began   time.Time // of this hour
	bits    int       // of all filters
}

// names are those of one tenant. naming.mu guards it.
type names struct {
	now, before filters // in this hour, and in the one before
	count       int     // in this hour, those that were not in the one before
}

// Name takes note that a tenant uses names, or refuses that because it used too many new ones in this hour.
func (d *Desk) Name(t lock.Tenant, all ...string) error {
	most := d.limits.NamesPerAddress
	if most == 0 {
		return nil
	}
	n := &d.naming
	n.mu.Lock()
	defer n.mu.Unlock()
	n.turnLocked(time.Now())
	of := n.tenants[t]
	if of == nil {
		of = &names{}
		n.tenants[t] = of
	}
	for _, name := range all {
		h := maphash.String(seed, name)
		switch {
		case of.now.has(h):
			continue
		case of.before.has(h):
		case of.count >= most:
			return d.denied("names_per_address", most)
		default:
			of.count++
		}
		n.bits += of.now.add(h, mostBits-n.bits)
	}
	return nil
}

// turnLocked begins the next hour if it is time.
func (n *naming) turnLocked(now time.Time) {
	passed := now.Sub(n.began)
	if passed < namesFor {
		return
	}
	n.began, n.bits = now, 0
	for t, of := range n.tenants {
		of.before, of.now, of.count = of.now, filters{}, 0
		if passed >= 2*namesFor || len(of.before.all) == 0 {
			delete(n.tenants, t)
			continue
		}
		n.bits += of.before.bits()
	}
}

var seed = maphash.MakeSeed()

// filters know which hashes were added, and take few others for such. It is a Bloom filter that grows (Almeida and
// others, "Scalable Bloom Filters", 2007).
type filters struct {
	all  [][]uint64
	room int // names that the last one has room for
}

// has says whether a hash was added.
func (f *filters) has(h uint64) bool {
	for _, bits := range f.all {
		if !each(bits, h, func(word *uint64, bit uint64) bool { return *word&bit != 0 }) {
			continue
		}
		return true
	}
	return false
}

// add adds a hash. It may take so many bits more, and says how many it took.
func (f *filters) add(h uint64, most int) (took int) {
	if f.room == 0 {
		size := firstNames << (2 * len(f.all))
		if f.room = size; size*bitsPerName <= most || len(f.all) == 0 {
			took = size * bitsPerName
			f.all = append(f.all, make([]uint64, took/64))
		}
	}
	f.room--
	each(f.all[len(f.all)-1], h, func(word *uint64, bit uint64) bool { *word |= bit; return true })
	return took
}

func (f *filters) bits() (n int) {
	for _, bits := range f.all {
		n += 64 * len(bits)
	}
	return n
}

// each calls a function with the bits of a hash until it returns false.
func each(bits []uint64, h uint64, f func(word *uint64, bit uint64) bool) bool {
	step := h>>32 | 1
	for range probes {
		if !f(&bits[h/64%uint64(len(bits))], 1<<(h%64)) {
			return false
		}
		h += step
	}
	return true
}
