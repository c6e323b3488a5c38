package redisstore

import (
	"testing"

	"github.com/lockd-io/lockd/internal/proctest"
)

const (
	scripts  = "internal/redisstore/script/"
	repeated = "/RepeatedItIsTheSameHold"
)

// plants are mistakes about an attempt that repeats an earlier one of its owner, or comes late, each with the test that
// is there to find it.
var plants = []struct {
	name, found string
	all         []proctest.Plant
}{
	{"a repeated attempt gets a new fence", "TestContract/Exclusive" + repeated, []proctest.Plant{{
		scripts + "plain.lua", "{1, again_fence(p.token, fence, a.fence_ttl, a.fence), left}",
		"{1, (grant_fence(p.token, a.fence_ttl, a.fence)), left}",
	}}},
	{"a repeated attempt is counted", "TestContract/Exclusive" + repeated, []proctest.Plant{{
		scripts + "plain.lua", "  local left = extend(p.name, a.ttl)",
		"  redis.call('HINCRBY', p.name, a.owner, 1)\n  local left = extend(p.name, a.ttl)",
	}}},
	{"an attempt takes what another owner holds", "TestContract/Exclusive/AHeldNameIsRefused", []proctest.Plant{{
		scripts + "plain.lua", "if mine or fields == 0 then return nil, mine end", "if fields < 2 then return nil, mine end",
	}}},
	{"a repeated read gets a new fence", "TestContract/Read" + repeated, []proctest.Plant{{
		scripts + "rw.lua", "  if fence > 1 then\n", "  if fence < 0 then\n",
	}}},
	{"a repeated write gets a new fence", "TestContract/Write" + repeated, []proctest.Plant{{
		scripts + "rw.lua", "fence = tonumber(state.fence) or next_fence(0, a.fence)", "fence = next_fence(0, a.fence)",
	}}},
	{"a reader takes what a writer holds", "TestContract/Write/AWriterExcludesAll", []proctest.Plant{{
		scripts + "rw.lua", "  if mode ~= 'read' and left ~= -2 then return", "  if false then return",
	}}},
	{"a repeated attempt takes permits again", "TestContract/Semaphore" + repeated, []proctest.Plant{{
		scripts + "semaphore.lua", "redis.call('DECRBY', s.name, added)", "redis.call('DECRBY', s.name, a.permits)",
	}, {
		scripts + "semaphore.lua", "  if added > 0 then redis", "  if true then redis",
	}}},
	{"earlier connections are not ended", "TestALateReleaseOfAnUnreplicatedGrantEndsNoLaterHold", []proctest.Plant{{
		"internal/redisstore/store.go", "= true, cfg.Unended, cfg.Hook", "= true, nil, cfg.Hook",
	}}},
}

func TestPlantedBugsAreFound(t *testing.T) {
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) { proctest.Finds(t, p.found, p.all) })
	}
}
