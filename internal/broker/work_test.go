package broker_test

import (
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/request"
	"github.com/lockd-io/lockd/internal/session"
)

// of opens a session of a tenant.
func (w *world) of(t lock.Tenant) *client {
	return w.openWith(session.OpenRequest{Client: session.Client{Tenant: t}})
}

// What makes lockd work and is not shared out by the store is paid for: while a tenant asks for such things without a
// pause, its messages are read later, and those of others are not. What the store is asked for is not paid for here.
func TestWhatTheStoreDoesNotShareOutIsPaidFor(t *testing.T) {
	var held session.Hold
	for name, row := range map[string]struct {
		ask  func(c *client)
		free bool
	}{
		"requests that are refused": {ask: func(c *client) {
			c.Release(c.id(), session.Hold{Name: "n", Kind: lock.Exclusive})
		}},
		"messages that are not read": {ask: func(c *client) { c.Refuse(c.id(), lock.ErrUnsupported) }},
		"ids that are used again":    {ask: func(c *client) { c.Look(1, "n") }},
		"signs of life":              {ask: func(c *client) { c.Heartbeat(0, 1) }},
		"lists of nothing":           {ask: func(c *client) { c.ListHolds(c.id(), session.Page{Size: 10}) }},
		"watches":                    {ask: func(c *client) { c.Watch(c.id(), "w"); c.Unwatch(c.id(), "w") }},
		"tries for a lock that is held here": {ask: func(c *client) {
			c.Acquire(c.id(), request.Acquire{Name: "held", Kind: lock.Exclusive, Wait: new(time.Duration(0))})
		}},
		"a queue that is joined and left": {ask: func(c *client) {
			id := c.id()
			c.Acquire(id, request.Acquire{Name: "held", Kind: lock.Exclusive})
			c.Cancel(c.id(), id)
		}},
		"a fair queue that is joined and left": {ask: func(c *client) {
			id := c.id()
			c.Acquire(id, request.Acquire{Name: "fair", Kind: lock.Fair})
			c.Cancel(c.id(), id)
		}},
		"locks": {free: true, ask: func(c *client) {
			c.Acquire(c.id(), request.Acquire{Name: "mine", Kind: lock.Exclusive})
			c.Release(c.id(), one[session.Granted](c).Hold)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, func(w *world) {
				neighbour, attacker := w.of("neighbour"), w.of("attacker")
				held = neighbour.take("held").Hold
				neighbour.acquire(request.Acquire{Name: "fair", Kind: lock.Fair})
				neighbour.events()
				const most = 100_000
				n, enough := 0, most
				if row.free {
					enough = 20_000
				}
				for ; attacker.Owes() == 0 && n < enough; n++ {
					row.ask(attacker)
					if n%100 == 0 || row.free {
						attacker.events()
					}
				}
				if (n == enough) != row.free {
					t.Errorf("after %d requests the attacker's messages are read as before: %t", n, n == enough)
				}
				row.ask(neighbour)
				if wait := neighbour.Owes(); wait != 0 {
					t.Errorf("the messages of a neighbour are read %v later", wait)
				}
				neighbour.events()
				neighbour.release(held)
			})
		})
	}
}

// Changes of a watched name cost much more than others, and more the more watch it. They are paid for where the same
// tenant watches: nobody is slowed down because strangers watch, or because strangers do what he watches.
func TestChangesOfAWatchedNameArePaidFor(t *testing.T) {
	once := request.Once{Name: "n", Kind: lock.Exclusive, Tenant: "attacker"}
	for _, row := range []struct {
		of                        lock.Tenant
		watchers, atLeast, atMost int
		unary                     bool
	}{
		{"attacker", 1, 500, 2000, false},
		{"attacker", 100, 100, 200, false},
		{"attacker", 100, 100, 200, true},
		{"stranger", 100, 3000, 3000, false},
		{"stranger", 100, 3000, 3000, true},
	} {
		inWorld(t, func(w *world) {
			w.of("neighbour")
			changes, watches := w.of("attacker"), w.of(row.of)
			watches.Watch(watches.id(), "n")
			for range row.watchers - 1 {
				w.of(row.of).Watch(1, "n")
			}
			watches.Owes() // it has paid for that
			time.Sleep(time.Second)
			w.b.Tenants().Spend("stranger", time.Second) // what it has ahead, and more
			n := 0
			for ; changes.Owes() == 0 && w.b.Tenants().Spend("attacker", 0) == 0 && n < 3000; n++ {
				if !row.unary {
					changes.release(changes.take("n").Hold)
					continue
				}
				once.LeaseID = w.mustOnce(request.Once{Name: "n"}).LeaseID
				_, err := w.b.ReleaseOnce(once)
				must(t, err)
			}
			if n < row.atLeast || n > row.atMost || watches.Owes() > 0 {
				t.Errorf("%+v: %d changes were made at once; who watches waits for %v", row, n, watches.Owes())
			}
		})
	}
}

// What a session leaves in the store is given up at its end: that is paid for as at any other time.
func TestPlacesThatASessionLeavesAtItsEndArePaidFor(t *testing.T) {
	inWorld(t, func(w *world) {
		w.of("neighbour").takeKind("job", lock.Fair)
		c := w.of("attacker")
		for range 50 {
			c.acquire(request.Acquire{Name: "job", Kind: lock.Fair})
		}
		c.events()
		w.b.Tenants().Spend("attacker", time.Second) // what it has ahead, and more
		c.Owes()
		before := w.b.Tenants().Spend("attacker", 0)
		c.Goodbye()
		if after := w.b.Tenants().Spend("attacker", 0); after <= before {
			t.Errorf("it owes %v, and owed %v before", after, before)
		}
	})
}

func TestUnaryCallsUseTheShareOfTheirTenant(t *testing.T) {
	inWorld(t, func(w *world) {
		var shares []string
		w.store.onCall("", func(c call) error {
			switch asked := c.arg.(type) {
			case lock.Claim:
				shares = append(shares, asked.Owner.For(asked.Tenant))
			case lock.Renewal:
				shares = append(shares, asked.Owner.For(asked.Tenant))
			case lock.Return:
				shares = append(shares, asked.Owner.For(asked.Tenant))
			}
			return c.do()
		})
		req := request.Once{Tenant: "10.0.0.1", Name: "n", Kind: lock.Exclusive, Lease: time.Minute}
		req.LeaseID = w.mustOnce(req).LeaseID
		_, extended := w.b.ExtendOnce(req)
		_, released := w.b.ReleaseOnce(req)
		if extended != nil || released != nil || len(shares) < 3 {
			t.Errorf("%v, %v, %d calls of the store", extended, released, len(shares))
		}
		for _, of := range shares {
			if of != req.Tenant.Unary() {
				t.Errorf("a call uses the share of %q", of)
			}
		}
	})
}

// Nobody fills the store with names, however they are used.
func TestNewNamesOfATenantAreBounded(t *testing.T) {
	cfg := testConfig()
	cfg.Limits.Sessions, cfg.Limits.NamesPerAddress = 10, 100
	for how, use := range map[string]func(w *world, c *client, name string) error{
		"acquired": func(_ *world, c *client, name string) error {
			c.Acquire(c.id(), request.Acquire{Name: name, Kind: lock.Exclusive})
			return refusal(c.events())
		},
		"several": func(_ *world, c *client, name string) error {
			more := []request.Item{{Name: name, Kind: lock.Exclusive}}
			c.Acquire(c.id(), request.Acquire{Name: "first", Kind: lock.Exclusive, More: more, Wait: new(time.Duration(0))})
			return refusal(c.events())
		},
		"limited": func(_ *world, c *client, name string) error {
			c.SetLimit(c.id(), request.SetLimit{Tenant: "attacker", Name: name, Limit: 1})
			return refusal(c.events())
		},
		"unary": func(w *world, _ *client, name string) error {
			_, _, err := w.b.AcquireOnce(w.t.Context(), request.Once{
				Tenant: "attacker", Name: name, Kind: lock.Exclusive, Lease: time.Second,
			})
			return err
		},
		"unary limits": func(w *world, _ *client, name string) error {
			_, err := w.b.SetLimit(request.SetLimit{Tenant: "attacker", Name: name, Limit: 1})
			return err
		},
	} {
		t.Run(how, func(t *testing.T) {
			inWorldWith(t, cfg, func(w *world) {
				c, n := w.of("attacker"), 0
				var err error
				for ; err == nil && n < 200; n++ {
					err = use(w, c, name(n))
				}
				if !isQuota(err, "names_per_address") || n < 95 || n > 110 {
					t.Errorf("after %d names: got %v", n, err)
				}
				names := how == "acquired" || how == "several" // that are used by the session's tenant
				if err := use(w, w.of("neighbour"), name(0)); names && err != nil {
					t.Errorf("a neighbour: got %v", err)
				}
			})
		})
	}
}

// refusal is the error of a request, if it has one.
func refusal(events []session.Event) error {
	for _, e := range events {
		if f, ok := e.(session.Failed); ok {
			return f.Err
		}
	}
	return nil
}
