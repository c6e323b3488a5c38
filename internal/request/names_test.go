package request

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
)

func TestNames(t *testing.T) {
	for name, ok := range map[string]bool{
		"job": true, "a": true, strings.Repeat("x", 512): true, "grüße:東京": true, "{tag}:job": true, "a{b}c{d": true,
		"spaces are fine": true, "x}y{z}": true,
		// as in Redisson; shown as escapes
		"invisible\u200b": true, "\u202ereordered": true, "joined\u200d": true, "separated\u2028": true,
		"": false, strings.Repeat("x", 513): false, "a\x00b": false, "a\nb": false, "\xff": false, "a\u0085b": false,
		"a{b": false, "a}b": false, "{}": false, "{}x{y}": false, "a}b{": false,
	} {
		err := checkName(name, 512)
		if (err == nil) != ok {
			t.Errorf("%q: got %v, want ok = %v", name, err, ok)
		}
		var invalid *lock.InvalidError
		if err != nil && (!errors.As(err, &invalid) || invalid.Reason != lock.ReasonName) {
			t.Errorf("%q: got %#v, want an InvalidError with its reason", name, err)
		}
	}
}

// hashTag is what Redis Cluster hashes of a key (Redis Cluster specification, "Hash tags").
func hashTag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	if tag, _, closed := strings.Cut(rest, "}"); ok && closed && tag != "" {
		return tag
	}
	return key
}

func FuzzNamesKeepTheirKeysInOneSlot(f *testing.F) {
	for _, s := range []string{"job", "{a}b", "a{b", "a}b", "{}", "}{a}", "a{b}c}d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if checkName(name, 512) != nil {
			return
		}
		if !utf8.ValidString(name) || name == "" {
			t.Errorf("%q was let through", name)
		}
		helper := "redisson_lock_token:{" + name + "}"
		if strings.Contains(name, "{") {
			helper = "redisson_lock_token:" + name
		}
		if got, want := hashTag(helper), hashTag(name); got != want {
			t.Errorf("%q hashes to %q, its helper key to %q", name, want, got)
		}
	})
}

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
