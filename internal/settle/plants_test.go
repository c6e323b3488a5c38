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
	{"a pending release is dropped when its first call was not answered", []proctest.Plant{
		{here + "release.go", "case err == nil || !lock.Retriable(err):", "case true:"},
	}},
	{"the pending release is not cancelled by an acquisition", []proctest.Plant{
		{here + "pending.go", "		case over:\n			s.removeLocked(u)", "		case over:\n			s.planLocked(u)"},
	}},
	{"the pending release is not put off by an acquisition", []proctest.Plant{
		{here + "pending.go", "			u.asking++\n			off = append(off, u)", "			s.due.ReplaceOrInsert(u)"},
	}},
	{"the answer for an old pending release ends a newer one", []proctest.Plant{
		{here + "release.go", "mine := s.all[u.key] == u", "mine := s.all[u.key] != nil"},
	}},
	{"the successor has no pending release", []proctest.Plant{
		{here + "release.go", "lock.ErrOutcomeUnknown) && !s.cfg.Member &&", "lock.ErrOutcomeUnknown) && false &&"},
	}},
	{"a successor that repeats has a pending release", []proctest.Plant{
		{here + "release.go", "s.cfg.Member && !next.Owner.Repeats():", "s.cfg.Member:"},
	}},
	{"what a successor that repeats has on too few replicas is released", []proctest.Plant{
		{here + "release.go", "case few && next.Owner.Repeats():", "case false:"},
	}},
	{"the pending release of a successor is not put off", []proctest.Plant{
		{here + "release.go", "	if r.Next != nil {\n		u.off", "	if false {\n		u.off"},
	}},
	{"an owner that repeats is given what its release ends", []proctest.Plant{
		{here + "release.go", "	if r.Owner.Repeats() {", "	if false {"},
		{here + "release.go", "lock.Retriable(err) && !u.owner.Repeats() {", "lock.Retriable(err) {"},
	}},
	{"an acquisition of unknown outcome has no pending release", []proctest.Plant{
		{here + "acquire.go", "n == unsettled && !c.Owner.Repeats()", "false"},
	}},
	{"names on other servers are left after a refusal", []proctest.Plant{
		{here + "acquire.go", "len(cs) == 1 && !lock.Retriable(err)", "!lock.Retriable(err)"},
	}},
	{"what was granted in vain is left", []proctest.Plant{
		{here + "acquire.go", "		if n == inVain {", "		if false {"},
	}},
}

// disagreements are mistakes about what an owner wants that asks twice. The scenarios find them, in the order in which
// it does.
var disagreements = []struct {
	name, found string
	all         []proctest.Plant
}{
	{"the pending release is not put off by an acquisition of several", "so_does_one_of_several_names", []proctest.Plant{
		{here + "acquire.go", "cs, s.putOff(cs), false,", "cs, nil, false,"},
	}},
	{"that of an owner that repeats is only put off", "whatever_becomes_of_the_acquisition", []proctest.Plant{
		{here + "pending.go", "		case c.Owner.Repeats():\n			s.removeLocked(u)\n", ""},
	}},
	{
		"a pending release goes on while its owner asks",
		"a_pending_release_whose_call_is_lost_while_its_owner_asks_waits_for_that",
		[]proctest.Plant{{here + "pending.go", "if !u.calling && u.asking == 0 {", "if !u.calling {"}},
	},
	{"of two releases the first one is forgotten", "also_if_it_was_asked_for_first", []proctest.Plant{
		{here + "pending.go", "		u.continues(old)\n", ""},
	}},
	{"of two releases the one that keeps more is done", lessKept, []proctest.Plant{
		{here + "pending.go", "min(u.r.Keep, old.r.Keep)", "max(u.r.Keep, old.r.Keep)"},
	}},
	{"of two releases the second one is forgotten", lessKept, []proctest.Plant{
		{here + "pending.go", "		u.continues(old)\n		s.removeLocked(old)", "		return true"},
	}},
	{
		"of two releases the fence of the first one is forgotten", "releases_of_different_fences_are_all_done",
		[]proctest.Plant{{here + "release.go", "lock.ErrStale) && len(u.others) > 0", "lock.ErrStale) && false"}},
	},
	{"two releases of different fences are one of any", "but_no_other_one_is", []proctest.Plant{
		{here + "pending.go", "u.r.Fence == 0 || old.r.Fence == 0 {", "u.r.Fence != old.r.Fence {"},
	}},
	{
		"a pending release that continues is given up early",
		"a_release_goes_on_for_as_long_as_the_pending_release_that_it_continues",
		[]proctest.Plant{
			{here + "pending.go", "if old.end.After(u.end) {", "if false {"},
			{here + "release.go", "s.newPending(r, s.cfg.LongestLease)", "s.newPending(r, 0)"},
		},
	},
	{
		"a release is given up when its lease may last", "a_release_goes_on_for_as_long_as_any_lease_may_last",
		[]proctest.Plant{{here + "release.go", "s.newPending(r, s.cfg.LongestLease)", "s.newPending(r, 0)"}},
	},
	{
		"the pending release that keeps some is not cancelled", "an_acquisition_cancels_what_its_owner_was_to_keep",
		[]proctest.Plant{{here + "pending.go", "		case over:\n			s.removeLocked(u)", "		case over:\n			s.planLocked(u)"}},
	},
}

const lessKept = "of_two_releases_of_an_owner_the_one_that_keeps_less_is_done"

func TestPlantedBugsAreFound(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) { proctest.Finds(t, "TestNothingIsLostAndNothingIsLeft", p.all) })
	}
	for _, p := range disagreements {
		t.Run(p.name, func(t *testing.T) { proctest.Finds(t, "TestScenarios/"+p.found, p.all) })
	}
}
