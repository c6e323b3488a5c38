package settle

import (
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
)

const here = "internal/settle/"

// plants are mistakes that the random test is there to find.
var plants = []struct {
	name string
	all  []proctest.Plant
}{
	{"a row is dropped when its first release was not answered", []proctest.Plant{
		{here + "release.go", "case err == nil || !lock.Retriable(err):", "case true:"},
	}},
	{"the row is not cancelled by an acquisition", []proctest.Plant{
		{here + "rows.go", "		case over:\n			s.removeLocked(u)", "		case over:\n			s.planLocked(u)"},
	}},
	{"the row is not put off by an acquisition", []proctest.Plant{
		{here + "rows.go", "			u.asking++\n			off = append(off, u)", "			s.due.ReplaceOrInsert(u)"},
	}},
	{"the answer for an old row ends a newer one", []proctest.Plant{
		{here + "release.go", "mine := s.all[u.key] == u", "mine := s.all[u.key] != nil"},
	}},
	{"the successor has no row", []proctest.Plant{
		{here + "release.go", "lock.ErrOutcomeUnknown) && !s.cfg.Member &&", "lock.ErrOutcomeUnknown) && false &&"},
	}},
	{"a successor that repeats has a row", []proctest.Plant{
		{here + "release.go", "s.cfg.Member && !next.Owner.Repeats():", "s.cfg.Member:"},
	}},
	{"what a successor that repeats has on too few replicas is released", []proctest.Plant{
		{here + "release.go", "case few && next.Owner.Repeats():", "case false:"},
	}},
	{"the row of a successor is not put off", []proctest.Plant{
		{here + "release.go", "	if r.Next != nil {\n		u.off", "	if false {\n		u.off"},
	}},
	{"an owner that repeats is given what its release ends", []proctest.Plant{
		{here + "release.go", "	if r.Owner.Repeats() {", "	if false {"},
		{here + "release.go", "lock.Retriable(err) && !u.owner.Repeats() {", "lock.Retriable(err) {"},
	}},
	{"names on other servers are left after a refusal", []proctest.Plant{
		{here + "acquire.go", "len(cs) == 1 && !lock.Retriable(err)", "!lock.Retriable(err)"},
	}},
	{"what was granted in vain is left", []proctest.Plant{
		{here + "acquire.go", "		if n == inVain {", "		if false {"},
	}},
}

func TestPlantedBugsAreFound(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) { proctest.Finds(t, "TestNothingIsLostAndNothingIsLeft", p.all) })
	}
}
