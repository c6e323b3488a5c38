package redlock

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
	"github.com/lockd-io/lockd/internal/tier"
)

const here = "internal/redlock/"

// plants are mistakes, each with the test that is there to find it.
var plants = []struct {
	name  string
	found string
	all   []proctest.Plant
}{
	{"half of the members", storm100, []proctest.Plant{
		{here + "store.go", "quorum: len(members)/2 + 1", "quorum: len(members) / 2"},
	}},
	{"no look at the time", storm100, []proctest.Plant{
		{here + "acquire.go", "return time.Since(a.start) >= a.asked[0].TTL", "return false"},
		{here + "verbs_test.go", "if err == nil && time.Now().Before(until) {", "if err == nil {"},
	}},
	{"no allowance for drift", storm100, []proctest.Plant{
		{here + "config.go", "return ttl + ttl/100 + 2*time.Millisecond", "return ttl"},
	}},
	{"unknowns are left", "TestScenarios/AFailedAttemptLeavesNothing", []proctest.Plant{
		{here + "acquire.go", "case v.cast && isUnknown(v.err):", "case false:"},
		{here + "acquire.go", "case undo && isUnknown(v.err):", "case false:"},
	}},
	{"fences as they are", storm100, []proctest.Plant{
		{here + "fences.go", "if times < a.s.quorum {", "if times == 0 {"},
		{here + "fences.go", "|| a.asked[n].Fence != 0 {", "|| true {"},
	}},
	{"members vote when empty", storm100, []proctest.Plant{
		{here + "members.go", "return s.quarantine(m) > 0", "return false"},
	}},
	{"an extension by one member", storm100, []proctest.Plant{
		{here + "extend.go", "if len(left) >= s.quorum {", "if len(left) >= 1 {"},
		{here + "extend.go", "left[len(left)-s.quorum]", "left[len(left)-1]"},
	}},
	{"a hand-over by one member", storm100, []proctest.Plant{{here + "handover.go", "	if then == nil {\n", `
	for _, v := range h.votes {
		if then == nil && v.cast && v.err == nil {
			h.granted = []lock.Fence{v.v[0].Fence}
			then = h.tell(v.v, nil)
		}
	}
	if then == nil {
`}}},
	{"the fence of a minority's hand-over", storm100, []proctest.Plant{
		{here + "fences.go", "if times < a.s.quorum {", "if times < a.s.quorum && a.why == nil {"},
		{here + "fences.go", "|| a.asked[n].Fence != 0 {", "|| a.asked[n].Fence != 0 || a.why != nil {"},
	}},
	{"what a minority handed over is left", "TestScenarios/AHandOverOfAMinorityFreesTheName", []proctest.Plant{
		{here + "acquire.go", "	a.undo = true\n", "	if a.why != nil {\n		return a.tell(nil, err)\n	}\n	a.undo = true\n"},
	}},
	{"a renewal by the owner alone", "TestScenarios/ARenewalDoesNotCountOnWhatIsBeingUndone", []proctest.Plant{
		{here + "renew.go", "r.TTL, r.Sole = s.drifted(r.TTL), false", "r.TTL = s.drifted(r.TTL)"},
	}},
	{"an extension by the owner alone", "TestScenarios/AUnaryLeaseIsNotProlongedByWhatIsBeingUndone", []proctest.Plant{
		{here + "pin.go", "return r.Fence == 0 && r.TTL > 0 && r.Owner.Repeats()", "return false"},
	}},
	{"a hand-over to one that had left", storm100, []proctest.Plant{
		{here + "successors_test.go", "	if f != 0 {\n		h.giveBack(h.store, r)\n	}\n", "	unsure = false\n"},
	}},
}

// storm100 is the safety test with a hundred storms at most.
const storm100 = "TestNoTwoHoldersWhateverMembersDo"

// Where a plant goes is still there.
func TestPlantsFindTheirPlace(t *testing.T) {
	for _, p := range plants {
		if _, err := proctest.Planted(p.all); err != nil {
			t.Errorf("%s: %v", p.name, err)
		}
	}
}

// Each of the mistakes that these tests are there for is found by one of them.
func TestPlantedBugsAreFound(t *testing.T) {
	tier.Long(t)
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			dir := t.TempDir()
			bin, err := proctest.BuildPlanted(t.Context(), dir, p.all, "test", "-c", ".")
			if err != nil {
				t.Fatal(err)
			}
			only := "-test.run=^" + strings.ReplaceAll(p.found, "/", "$/^") + "$"
			cmd := exec.CommandContext(t.Context(), bin, only, "-redlock.storms=100", "-redlock.seed=1")
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if err == nil || !strings.Contains(string(out), "--- FAIL: "+p.found) || strings.Contains(string(out), "panic:") {
				t.Errorf("%s did not find it: %v\n%s", p.found, err, out)
			}
		})
	}
}
