package main

import (
	"fmt"
	"time"
)

// summary puts the results of all that was measured beside the goals.
type summary struct {
	floor []*floorRow
	pairs map[int][]peerPairs // by the number of callers
	kinds []peerPairs
}

func (s summary) print() {
	fmt.Print("\nIn short\n\n")
	t := newTable("figure", "value", "wanted")
	t.add("one caller: p50 of a lock / (echo + script)", ratio(aboveFloor(s.floor)), "at most 1.3")
	lockd, least := named(s.pairs[1], oneSession), named(s.pairs[1], fmt.Sprintf(relayName, 1))
	if lockd != nil && least != nil {
		t.add("one caller: p50 of a pair / that of the relay", ratio(float64(p50(*lockd))/float64(p50(*least))), "-")
		t.add("one caller: CPU of lockd, of the relay, us per pair",
			micros(cpu(*lockd, ofLockd))+", "+micros(cpu(*least, ofLockd)), "-")
	}
	many := s.pairs[manyCallers]
	if one := named(many, oneSession); one != nil {
		compared := func(what string, with float64, wanted string) {
			if with > 0 {
				t.add(fmt.Sprintf("%d callers, 1 session: pairs/s / %s", manyCallers, what), ratio(rate(*one)/with), wanted)
			}
		}
		compared("best library, as documented", fastest(many, library), "at least 1.0")
		compared("Redisson", fastest(many, java), "at least 10")
		s.printCPU(t, fmt.Sprintf("%d callers, 1 session", manyCallers), *one)
	}
	if apart := named(many, manySessions); apart != nil {
		of := fmt.Sprintf("%d sessions of one caller: ", manyCallers)
		t.add(of+"CPU of lockd, us per pair", micros(cpu(*apart, ofLockd)), "at most 45")
		if echo := named(many, fmt.Sprintf(echoName, manyCallers)); echo != nil {
			times := func(process func(usage) time.Duration) string {
				return ratio(float64(cpu(*apart, process)) / float64(cpu(*echo, process)))
			}
			t.add(of+"CPU of lockd / that of the echo server", times(ofLockd), "-")
			t.add(of+"CPU of the client / that of the echo client", times(ofClient), "-")
		}
	}
	own := named(s.kinds, ownNames)
	for _, name := range []string{oneRead, onePool} {
		if shared := named(s.kinds, name); shared != nil && own != nil {
			t.add(fmt.Sprintf("%d callers, %s: pairs/s / own names", manyCallers, name), ratio(rate(*shared)/rate(*own)), "1.0")
		}
	}
	t.print()
}

func (s summary) printCPU(t *table, of string, p peerPairs) {
	t.add(of+": CPU of Redis, us per pair", micros(cpu(p, ofRedis)), "at most 8")
	t.add(of+": CPU of lockd, us per pair", micros(cpu(p, ofLockd)), "at most 8")
	t.add(of+": CPU of the client, us per pair", micros(cpu(p, ofClient)), "at most 8")
	t.add(of+": allocations of the client for a pair",
		fmt.Sprintf("%.1f", medianOf(p.runs, func(r pairResult) float64 { return r.allocs })), "-")
}

// named finds a peer that was measured.
func named(results []peerPairs, name string) *peerPairs {
	for i, p := range results {
		if p.peer.name == name && len(p.runs) > 0 {
			return &results[i]
		}
	}
	return nil
}

// cpu is the CPU time of a process for a pair.
func cpu(p peerPairs, of func(usage) time.Duration) time.Duration {
	return medianOf(p.runs, func(r pairResult) time.Duration { return of(r.cpu) })
}

func ofRedis(u usage) time.Duration  { return u.redis }
func ofLockd(u usage) time.Duration  { return u.lockd }
func ofClient(u usage) time.Duration { return u.client }
