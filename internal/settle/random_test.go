package settle

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/tier"
)

// TestNothingIsLostAndNothingIsLeft has many owners lock a few names over a way that loses, delays, refuses and forgets
// at random. A grant that was told is there until its owner asks for its release, a release that was told as done is
// done, and when all is answered nothing is there that nobody was told of.
func TestNothingIsLostAndNothingIsLeft(t *testing.T) {
	runs := 400
	if tier.IsLong {
		runs = 5_000
	}
	for seed := range runs {
		if !t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { newWorld(t, uint64(seed)).run() })
		}) {
			return
		}
	}
}

// world is what goes on, and what is known of it. Nothing happens at the same time: the way decides when.
type world struct {
	t      *testing.T
	s      *Store
	w      *way
	rnd    *rand.Rand
	owners []*owner
	late   []func() // outcomes that are told later
	calm   bool     // no more trouble
	last   int      // number of an owner
	log    []string // what happened
}

// owner is who asks. One that repeats may ask for more while it has no answer.
type owner struct {
	id      lock.Owner
	names   []string
	busy    int  // calls without an answer
	asked   int  // how many acquisitions and releases it has made
	release int  // the number of its last release
	has     bool // it was told a grant, and has not asked for its release
	unsure  bool // the outcome of its last acquisition is unknown
	next    bool // a release may be handing the name to it
	gone    bool // it asks for nothing any more
	partly  bool // the store forgot some of what it is given
}

// several says whether it asks for several names together.
func (o *owner) several() bool { return len(o.names) > 1 }

var worldNames = []string{"x", "y", "z"}

func newWorld(t *testing.T, seed uint64) *world {
	v := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 1))}
	v.s, v.w = newSettled(t, Config{Member: seed%4 == 0, UnderWay: 1 + v.rnd.IntN(4)})
	v.w.told = v.told
	t.Cleanup(func() { // if it has failed, calls are under way
		v.s.Close()
		v.calm = true
		v.tellLate()
		for v.w.underWay() > 0 {
			v.w.lose(0)
			synctest.Wait()
		}
	})
	return v
}

func (v *world) run() {
	for range 150 {
		v.step()
		synctest.Wait()
		v.check()
	}
	v.calm = true
	v.tellLate()
	for range 200 { // all is answered from now on
		v.w.deliver(-1)
		synctest.Wait()
		time.Sleep(time.Second)
		synctest.Wait()
	}
	v.w.deliver(-1)
	synctest.Wait()
	v.check()
	if n := v.s.n.Load(); n != 0 {
		v.fail("%d pending releases are left", n)
	}
	for _, name := range worldNames {
		if o := v.owner(v.holder(name)); o != nil && !o.has && !o.partly && !o.id.Repeats() {
			v.fail("%s is left to %s", name, o.id)
		}
	}
}

// step does something.
func (v *world) step() {
	switch n := v.rnd.IntN(100); {
	case n < 35:
		v.ask()
	case n < 70:
		v.w.deliver(1 + v.rnd.IntN(3))
	case n < 80:
		k := v.rnd.IntN(4)
		v.note("lose %d of %d", k, v.w.underWay())
		v.w.lose(k)
	case n < 87:
		v.w.refuse([]error{lock.ErrUnavailable, lock.ErrStoreFull}[v.rnd.IntN(2)])
	case n < 90:
		v.few()
	case n < 91:
		v.forget()
	case n < 95:
		v.tellLate()
	default:
		time.Sleep(time.Duration(v.rnd.IntN(3000)) * time.Millisecond)
	}
}

// told tells an outcome. Of some it is told after those of later calls: calls are in order, answers need not be.
func (v *world) told(tell func()) {
	if !v.calm && v.rnd.IntN(5) == 0 {
		v.late = append(v.late, tell)
		return
	}
	tell()
	synctest.Wait()
}

func (v *world) tellLate() {
	for _, tell := range v.late {
		tell()
		synctest.Wait()
	}
	v.late = nil
}

// few tells that too few replicas have a grant, if that is what is under way.
func (v *world) few() {
	for _, c := range v.w.take(1) {
		c.run()
		if c.grants() {
			c.tell(lock.ErrNotReplicated)
		} else {
			c.tell(nil)
		}
	}
}

// forget has the store lose its data. Nobody can be told.
func (v *world) forget() {
	v.tellLate()
	v.note("the store forgets")
	v.w.Lose()
	for _, o := range v.owners {
		o.has = false
		if o.several() && o.busy > 0 { // it may get the rest
			o.partly = true
		}
	}
}

// ask has an owner ask for something, or a new one come.
func (v *world) ask() {
	var idle []*owner
	for _, o := range v.owners {
		if !o.gone && !o.next && (o.busy == 0 || o.id.Repeats() && o.busy < 3) {
			idle = append(idle, o)
		}
	}
	if len(idle) < 4 || v.rnd.IntN(4) == 0 {
		v.come()
		return
	}
	o := idle[v.rnd.IntN(len(idle))]
	switch {
	case o.id.Repeats() && v.rnd.IntN(2) == 0:
		v.acquire(o)
	case o.has || o.id.Repeats():
		v.release(o, idle)
	case o.unsure && v.rnd.IntN(3) == 0:
		v.release(o, nil)
	case v.rnd.IntN(4) == 0: // it asks no more, whatever it knows
		o.gone = true
	default:
		v.acquire(o)
	}
}

func (v *world) come() {
	v.last++
	o := &owner{id: lock.Owner(fmt.Sprintf("s:#%d", v.last)), names: []string{worldNames[v.rnd.IntN(2)]}}
	switch v.rnd.IntN(6) {
	case 0:
		o.id = lock.Owner(fmt.Sprintf("%d%s", v.last, lock.UnarySuffix))
	case 1:
		o.names = worldNames
	}
	v.owners = append(v.owners, o)
	v.acquire(o)
}

func (v *world) acquire(o *owner) {
	o.busy++
	o.asked++
	number := o.asked
	v.note("%s acquires", o.id)
	granted := func(_ lock.Grant, err error) {
		v.note("%s: acquired: %v", o.id, err)
		o.busy--
		if number < o.release { // it was asked for before
			return
		}
		o.has = o.has || err == nil && !o.partly
		if o.unsure = errors.Is(err, lock.ErrOutcomeUnknown); o.unsure && v.s.cfg.Member && !o.id.Repeats() {
			v.release(o, nil) // nobody else does
		}
	}
	if !o.several() {
		v.s.StartAcquire(v.claim(o, o.names[0]), granted)
		return
	}
	var cs []lock.Claim
	for _, name := range o.names {
		cs = append(cs, v.claim(o, name))
	}
	go func() {
		_, err := v.s.AcquireAll(v.t.Context(), cs)
		granted(lock.Grant{}, err)
	}()
}

func (v *world) claim(o *owner, name string) lock.Claim {
	return lock.Claim{Name: name, Kind: lock.Exclusive, Owner: o.id, TTL: 24 * time.Hour}
}

// release releases what an owner has, to one of some others or to nobody.
func (v *world) release(o *owner, others []*owner) {
	o.asked++
	o.release = o.asked
	o.has, o.unsure = false, false
	if !o.id.Repeats() {
		o.gone = true
	}
	for _, name := range o.names {
		r := lock.Return{Name: name, Kind: lock.Exclusive, Owner: o.id}
		var to *owner
		if !o.several() && v.rnd.IntN(2) == 0 {
			to = v.successor(o, others)
		}
		if to != nil {
			to.next = true
			r.Next = &lock.Successor{Owner: to.id, TTL: 24 * time.Hour}
		}
		o.busy++
		number := o.asked
		v.note("%s releases %s", o.id, name)
		v.s.StartRelease(r, func(res lock.Returned, err error) {
			o.busy--
			v.note("%s: released: %+v, %v", o.id, res, err)
			if err == nil && o.asked == number && v.holder(name) == o.id {
				v.fail("%s was told that %s is released, and has it", o.id, name)
			}
			if to == nil {
				return
			}
			to.next = false
			switch {
			case err == nil && res.HandedOver != 0:
				to.has = true
			case v.s.cfg.Member && errors.Is(err, lock.ErrOutcomeUnknown), v.s.cfg.Member && res.Assumed:
				v.release(to, nil)
			case to.id.Repeats() && v.holder(name) == to.id: // it asked at another replica, and was told
				to.has = true
			case v.rnd.IntN(2) == 0:
				to.gone = true
			}
		})
	}
}

// successor is who may be handed a name: it waits, and asks for nothing else.
func (v *world) successor(of *owner, among []*owner) *owner {
	for _, o := range among {
		if o != of && o.busy == 0 && !o.has && !o.gone && !o.several() && o.names[0] == of.names[0] {
			return o
		}
	}
	return nil
}

// check looks whether all who were told a grant have it.
func (v *world) check() {
	for _, o := range v.owners {
		for _, name := range o.names {
			if o.has && v.holder(name) != o.id {
				v.fail("%s was told that it has %s, and %q has it", o.id, name, v.holder(name))
			}
		}
	}
}

func (v *world) holder(name string) lock.Owner {
	st, err := v.w.Look(context.Background(), name)
	if err != nil {
		v.fail("look: %v", err)
	}
	return st.Owner
}

func (v *world) owner(id lock.Owner) *owner {
	if i := slices.IndexFunc(v.owners, func(o *owner) bool { return o.id == id }); i >= 0 {
		return v.owners[i]
	}
	return nil
}

func (v *world) note(format string, args ...any) { v.log = append(v.log, fmt.Sprintf(format, args...)) }

func (v *world) fail(format string, args ...any) {
	v.t.Helper()
	for _, line := range v.log {
		v.t.Log(line)
	}
	v.t.Fatalf(format, args...)
}
