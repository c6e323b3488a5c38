package limits

import (
	"hash/maphash"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
)

// Each name that is used leaves keys in the store, for as long as its fence is kept. So it is bounded how many names a
// tenant may use in an hour that it used neither in this hour nor in the one before.

const (
	// namesFor is how long names are counted together.
	namesFor = time.Hour
	// firstNames is how many the first filter of a tenant has room for. Each further one has four times as much room.
	firstNames = 1 << 10
	// bitsPerName and probes make about one new name in forty seem known. That one is not counted.
	bitsPerName, probes = 8, 4
	// mostBits bounds the filters of all tenants, 32 MiB. When they have no room, further names fill the last one up,
	// so that more and more seem known.
	mostBits = 32 << 23
	// mostNamed bounds the tenants whose names are counted. Each has a filter, 1 KiB, in this hour and in the one before.
	// Names of further tenants are not counted: a new tenant must not be refused because of others.
	mostNamed = 1 << 15
)

// names knows which tenants used which names lately.
type names struct {
	bits atomic.Int64 // of all filters

	mu      sync.RWMutex // guards the fields below; before tenantNames.mu
	tenants map[lock.Tenant]*tenantNames
	began   time.Time // of this hour
}

// tenantNames are those of one tenant.
type tenantNames struct {
	mu          sync.Mutex // guards the fields below
	now, before filters    // in this hour, and in the one before
	count       int        // names of this hour that were not used in the one before
}

// Name counts a name that a tenant uses, or refuses it because it used too many new ones in this hour.
func (ts *Tenants) Name(t lock.Tenant, name string) error {
	most := ts.limits.NamesPerAddress
	if most == 0 {
		return nil
	}
	h := maphash.String(seed, name)
	of := ts.names.of(t)
	if of == nil {
		return nil
	}
	of.mu.Lock()
	defer of.mu.Unlock()
	switch {
	case of.now.has(h):
		return nil
	case of.before.has(h):
	case of.count >= most:
		return ts.denied("names_per_address", most)
	default:
		of.count++
	}
	ts.names.bits.Add(int64(of.now.add(h, mostBits-int(ts.names.bits.Load()))))
	return nil
}

// of is what is known of a tenant, nil if there are too many tenants.
func (n *names) of(t lock.Tenant) *tenantNames {
	n.mu.RLock()
	of, began := n.tenants[t], n.began
	n.mu.RUnlock()
	now := time.Now()
	if of != nil && now.Sub(began) < namesFor {
		return of
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.nextHourLocked(now)
	if of = n.tenants[t]; of == nil && len(n.tenants) < mostNamed {
		of = &tenantNames{}
		n.tenants[t] = of
	}
	return of
}

// nextHourLocked begins the next hour if it is time. It locks each tenant's mutex in turn. Nobody waits for names.mu
// who holds one of these.
func (n *names) nextHourLocked(now time.Time) {
	passed := now.Sub(n.began)
	if passed < namesFor {
		return
	}
	n.began = now
	bits := 0
	for t, of := range n.tenants {
		of.mu.Lock()
		of.before, of.now, of.count = of.now, filters{}, 0
		if passed >= 2*namesFor || len(of.before.all) == 0 {
			delete(n.tenants, t)
		} else {
			bits += of.before.bits()
		}
		of.mu.Unlock()
	}
	n.bits.Store(int64(bits))
}

var seed = maphash.MakeSeed()

// filters know which hashes were added, and take a few others for added ones. It is a Bloom filter that grows (Almeida
// and others, "Scalable Bloom Filters", 2007).
type filters struct {
	all  [][]uint64
	left int // names that the last one has room for
}

// has says whether a hash was added. Most hashes are in the last filter.
func (f *filters) has(h uint64) bool {
	for _, bits := range slices.Backward(f.all) {
		if hasAll(bits, h) {
			return true
		}
	}
	return false
}

func hasAll(bits []uint64, h uint64) bool {
	for i := range uint64(probes) {
		if at := probe(h, i); bits[at/64&uint64(len(bits)-1)]&(1<<(at%64)) == 0 {
			return false
		}
	}
	return true
}

// probe is where one of the bits of a hash is.
func probe(h, i uint64) uint64 { return h + i*(h>>32|1) }

// add adds a hash. A further filter may have at most most bits; took says how many were allocated.
func (f *filters) add(h uint64, most int) (took int) {
	if f.left == 0 {
		size := firstNames << (2 * len(f.all))
		if f.left = size; size*bitsPerName <= most || len(f.all) == 0 {
			took = size * bitsPerName
			f.all = append(f.all, make([]uint64, took/64))
		}
	}
	f.left--
	bits := f.all[len(f.all)-1]
	for i := range uint64(probes) {
		at := probe(h, i)
		bits[at/64&uint64(len(bits)-1)] |= 1 << (at % 64)
	}
	return took
}

func (f *filters) bits() (n int) {
	for _, bits := range f.all {
		n += 64 * len(bits)
	}
	return n
}
