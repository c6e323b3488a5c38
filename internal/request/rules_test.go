package request

import (
	"errors"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
)

func TestTheBadOneOfSeveralLocksIsNamed(t *testing.T) {
	r := Rules{Limits: limits.Limits{NameBytes: 8, HolderBytes: 8, NamesPerAcquire: 4, MaxWait: time.Hour}}
	good := func(name string) Item { return Item{Name: name, Kind: lock.Exclusive} }
	for what, row := range map[string]struct {
		list  List
		bad   Item
		field string
	}{
		"a name of items":   {Items, good("a{b"), "items[2].name"},
		"a name of names":   {Names, good("a{b"), "names[2]"},
		"a kind of items":   {Items, Item{Name: "c"}, "items[2].kind"},
		"permits of items":  {Items, Item{Name: "c", Kind: lock.Fair, Permits: 2}, "items[2].permits"},
		"twice in items":    {Items, good("b"), "items[2].name"},
		"twice in names":    {Names, good("b"), "names[2]"},
		"all names' kind":   {Names, Item{Name: "c"}, "kind"},
		"a named semaphore": {Items, Item{Name: "c", Kind: lock.Semaphore}, "holder"},
	} {
		t.Run(what, func(t *testing.T) {
			err := r.Acquire(Acquire{
				Name: "a", Kind: lock.Exclusive, More: []Item{good("b"), row.bad}, Holder: "h", List: row.list,
			})
			if bad, ok := errors.AsType[*lock.InvalidError](err); !ok || bad.Field != row.field {
				t.Errorf("got %v, want it to name %s", err, row.field)
			}
		})
	}
	err := r.Acquire(Acquire{Name: "a{b", Kind: lock.Exclusive, More: []Item{good("b")}, List: Items})
	if bad, ok := errors.AsType[*lock.InvalidError](err); !ok || bad.Field != "items[0].name" {
		t.Errorf("the first one: got %v, want it to name items[0].name", err)
	}
}
