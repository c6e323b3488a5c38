package limits

import (
	"maps"

	"github.com/lockd-io/lockd/internal/lock"
)

// fewTenants is up to how many tenants a Table does not look for those that are gone.
const fewTenants = 1024

// Table has something for each tenant. When many have come, it forgets those that are gone.
type Table[V any] struct {
	all  map[lock.Tenant]*V
	gone func(lock.Tenant, *V) bool
	many int // with so many, those that are gone are forgotten
}

// NewTable makes a Table. gone says whether a tenant can be forgotten, because it is like one that never came.
func NewTable[V any](gone func(lock.Tenant, *V) bool) Table[V] {
	return Table[V]{make(map[lock.Tenant]*V), gone, fewTenants}
}

// Of returns what there is for a tenant: at first a zero value.
func (t *Table[V]) Of(tenant lock.Tenant) *V {
	v := t.all[tenant]
	if v == nil {
		if len(t.all) >= t.many {
			maps.DeleteFunc(t.all, t.gone)
			t.many = 2*len(t.all) + fewTenants
		}
		v = new(V)
		t.all[tenant] = v
	}
	return v
}
