package redlock

import (
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
)

const here = "internal/redlock/"

// plants are mistakes, each with the test that is there to find it.
var plants = []struct {
	name  string
	found string
	all   []proctest.Plant
}{
	{"half of the members", stormTest, []proctest.Plant{
		{here + "store.go", "quorum: len(members)/2 + 1", "quorum: len(members) / 2"},
	}},
	{"no look at the time", stormTest, []proctest.Plant{
		{here + "acquire.go", "case time.Since(a.start) >= a.claims[0].TTL:", "case false:"},
		{here + "verbs_test.go", "if err == nil && time.Now().Before(until) {", "if err == nil {"},
	}},
	{"no allowance for drift", stormTest, []proctest.Plant{
		{here + "config.go", "return ttl + lock.Drift(ttl)", "return ttl + 0*lock.Drift(ttl)"},
	}},
	{"a failed attempt skips members that did not tell", "TestScenarios/AFailedAttemptLeavesNothing", []proctest.Plant{
		{here + "acquire.go", "	if v.err != nil && !isUnknown(v.err) {", "	if v.err != nil {"},
	}},
	{"a failed attempt skips who has not answered", "TestScenarios/AFailedAttemptLeavesNothing", []proctest.Plant{
		{here + "acquire.go", "			v.err = errUnclear", "			continue"},
	}},
	{
		"a release of a failed attempt ends a later hold",
		"TestScenarios/WhatAReplicaUndoesLateEndsNoHoldThatGoesOnElsewhere",
		[]proctest.Plant{{here + "acquire.go", "		all = append(all, func() { a.s.release(m, r) })", `
		r.Fence = 0
		all = append(all, func() { a.s.release(m, r) })`}},
	},
	{
		"a member ends a hold that it was not asked to end", "TestScenarios/AMemberThatDidNotAnswerKeepsAHold",
		[]proctest.Plant{{here + "world_test.go", "settle.Config{Member: true}", "settle.Config{}"}},
	},
	{
		"a hold that ended while it was put back stays", "TestScenarios/AHoldThatEndsWhileItIsPutBackDoesNotStay",
		[]proctest.Plant{{here + "restore.go", "	if err == nil || isUnknown(err) {", "	if false {"}},
	},
	{
		"an owner that is asked for again is told what is being undone",
		"TestScenarios/AnAttemptIsNotToldWhatAnEarlierOneUndoes",
		[]proctest.Plant{{here + "fences.go", "a.repeats() || a.s.vain.none()", "true"}},
	},
	{"fences as they are", stormTest, []proctest.Plant{
		{here + "fences.go", "if times < a.s.quorum {", "if times == 0 {"},
		{here + "fences.go", "|| a.claims[n].Fence != 0 {", "|| true {"},
	}},
	{"members vote when empty", stormTest, []proctest.Plant{
		{here + "members.go", "return s.quarantine(m) > 0", "return false"},
	}},
	{"an extension by one member", stormTest, []proctest.Plant{
		{here + "extend.go", "if len(left) >= s.quorum {", "if len(left) >= 1 {"},
		{here + "extend.go", "left[len(left)-s.quorum]", "left[len(left)-1]"},
	}},
	{"a handoff by one member", stormTest, []proctest.Plant{{
		here + "handoff.go", "	if _, err := h.endedLocked(false); last", `
	for _, v := range h.votes {
		if v.from != nil && v.err == nil {
			h.granted = []lock.Fence{v.v[0].Fence}
			return func() { h.told(v.v, nil) }
		}
	}
	if _, err := h.endedLocked(false); last`,
	}}},
	{"the fence of a minority's handoff", stormTest, []proctest.Plant{
		{here + "fences.go", "if times < a.s.quorum {", "if times < a.s.quorum && a.why == nil {"},
		{here + "fences.go", "|| a.claims[n].Fence != 0 {", "|| a.claims[n].Fence != 0 || a.why != nil {"},
	}},
	{"what a minority handed over is left", "TestScenarios/AHandoffOfAMinorityFreesTheName", []proctest.Plant{
		{
			here + "acquire.go", "	a.lost = true\n",
			"	if a.why != nil {\n		return func() { a.told(nil, err) }\n	}\n	a.lost = true\n",
		},
	}},
	{"a renewal by the owner alone", "TestScenarios/ARenewalDoesNotCountOnWhatIsBeingUndone", []proctest.Plant{
		{here + "renew.go", "r.TTL = s.drifted(r.TTL)", "r.TTL, r.Fence = s.drifted(r.TTL), 0"},
	}},
	{"an extension by the owner alone", "TestScenarios/AUnaryLeaseIsNotProlongedByWhatIsBeingUndone", []proctest.Plant{
		{here + "extend.go", "	sent.TTL = s.drifted(r.TTL)\n", "	sent.TTL, sent.Fence = s.drifted(r.TTL), 0\n"},
		{here + "extend.go", "{ return m.Shorten(ctx, r) })", "{ r.Fence = 0; return m.Shorten(ctx, r) })"},
	}},
	{"holders are one, whoever they are", differ, []proctest.Plant{
		{here + "views.go", "Kind: st.Kind, Owner: commonOwner(st.Owner)}", "Kind: st.Kind}"},
	}},
	{"holders are counted as one, whoever they are", differ, []proctest.Plant{
		{here + "views.go", "return key{commonOwner(h.Owner), h.Kind}", `return key{"", h.Kind}`},
	}},
	{"holds are seen as one, whoever has them", differ, []proctest.Plant{
		{here + "views.go", "func(h hold) string { return h.ID }", "func(h hold) string { return h.ID[:4] }"},
	}},
	{
		"holds in the way are one, whoever has them", "TestScenarios/NobodyWaitsForALeaseThatNoMajorityHas",
		[]proctest.Plant{{here + "refusal.go", "o := commonOwner(held.HeldBy)", `o := lock.Owner("")`}},
	},
	{
		"fences are one, whatever they are", "TestScenarios/AUnaryLeaseIsProlongedByMembersThatDiffer",
		[]proctest.Plant{{here + "pin.go", "	case n >= s.quorum:", "	case n > 0 && len(fences) >= s.quorum:"}},
	},
	{"ends are one, whatever ended", "TestScenarios/EndsOfDifferentHoldsAreNoEnd", []proctest.Plant{
		{here + "ends.go", "of := endOf{n.Fence, n.Hold}", "of := endOf{}"},
	}},
	{"a repeated attempt gets a new fence", "TestScenarios/AUnaryLeaseKeepsTheFenceThatWasTold", []proctest.Plant{
		{here + "fences.go", "a.repeats() || a.s.vain.none()", "false"},
	}},
	{
		"a member without data gets no hold back", "TestScenarios/AHoldOutlivesTheRestartOfEachMember",
		[]proctest.Plant{{here + "restore.go", "		if s.restoreAt(ctx, m, r) {", "		if false {"}},
	},
	{
		"a member without the hold is handed nothing", "TestScenarios/AMemberWithoutTheHoldIsGivenIt",
		[]proctest.Plant{{here + "handoff.go", "h.known && !h.lost &&", "false &&"}},
	},
	{
		"what was put back is ended when others lost data", "TestScenarios/ALookAfterALossOfDataMakesNoTwoHolders",
		[]proctest.Plant{{here + "restore.go", "gone.Reason == lock.LostForced {", "gone != nil {"}},
	},
	{
		"a member that forgot a session says whose it is", "TestScenarios/MembersThatForgotASessionDoNotSayWhoseItIs",
		[]proctest.Plant{{here + "sessions.go", "if err == nil && s.quarantined(m) {", "if false {"}},
	},
	{"a handoff to one that had left", stormTest, []proctest.Plant{
		{here + "successors_test.go", "	if f != 0 {\n		h.release(", "	if false {\n		h.release("},
	}},
}

// differ is the test of members that name different holders.
const differ = "TestScenarios/HoldersAtDifferentMembersMakeNoMajority"

// stormTest is the safety test.
const stormTest = "TestNoTwoHoldersWhateverMembersDo"

// Each of the mistakes that these tests are there for is found by one of them.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			// Storms end with the first that fails. Some bugs are in one of twenty, and what is one depends on the machine.
			proctest.Finds(t, p.found, p.all, "-redlock.storms=2000", "-redlock.seed=1")
		})
	}
}
