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
	{"half of the members", storm100, []proctest.Plant{
		{here + "store.go", "quorum: len(members)/2 + 1", "quorum: len(members) / 2"},
	}},
	{"no look at the time", storm100, []proctest.Plant{
		{here + "acquire.go", "case time.Since(a.start) >= a.claims[0].TTL:", "case false:"},
		{here + "verbs_test.go", "if err == nil && time.Now().Before(until) {", "if err == nil {"},
	}},
	{"no allowance for drift", storm100, []proctest.Plant{
		{here + "config.go", "return ttl + ttl/100 + 2*time.Millisecond", "return ttl"},
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
	{"fences as they are", storm100, []proctest.Plant{
		{here + "fences.go", "if times < a.s.quorum {", "if times == 0 {"},
		{here + "fences.go", "|| a.claims[n].Fence != 0 {", "|| true {"},
	}},
	{"members vote when empty", storm100, []proctest.Plant{
		{here + "members.go", "return s.quarantine(m) > 0", "return false"},
	}},
	{"an extension by one member", storm100, []proctest.Plant{
		{here + "extend.go", "if len(left) >= s.quorum {", "if len(left) >= 1 {"},
		{here + "extend.go", "left[len(left)-s.quorum]", "left[len(left)-1]"},
	}},
	{"a hand-over by one member", storm100, []proctest.Plant{{here + "handover.go", "	if _, err := h.ended(false); last", `
	for _, v := range h.votes {
		if v.from != nil && v.err == nil {
			h.granted = []lock.Fence{v.v[0].Fence}
			return func() { h.told(v.v, nil) }
		}
	}
	if _, err := h.ended(false); last`}}},
	{"the fence of a minority's hand-over", storm100, []proctest.Plant{
		{here + "fences.go", "if times < a.s.quorum {", "if times < a.s.quorum && a.why == nil {"},
		{here + "fences.go", "|| a.claims[n].Fence != 0 {", "|| a.claims[n].Fence != 0 || a.why != nil {"},
	}},
	{"what a minority handed over is left", "TestScenarios/AHandOverOfAMinorityFreesTheName", []proctest.Plant{
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
	{"a hand-over to one that had left", storm100, []proctest.Plant{
		{here + "successors_test.go", "	if f != 0 {\n		h.giveBack(", "	if false {\n		h.giveBack("},
	}},
}

// storm100 is the safety test with a hundred storms at most.
const storm100 = "TestNoTwoHoldersWhateverMembersDo"

// Each of the mistakes that these tests are there for is found by one of them.
func TestPlantedBugsAreFound(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			proctest.Finds(t, p.found, p.all, "-redlock.storms=100", "-redlock.seed=1")
		})
	}
}
