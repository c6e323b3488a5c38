package security

import (
	"fmt"
	"slices"
	"sync/atomic"

	"github.com/lockd-io/lockd/internal/lock"
)

// Act is what an operator may do.
type Act string

// The acts.
const (
	ActForce   Act = "force"   // release a name by force, if the client may lock it; end a session, if it may lock all
	ActLimit   Act = "limit"   // remove the limit of a semaphore or adopt one, if the client may lock it
	ActDrain   Act = "drain"   // drain a replica, and take that back
	ActExamine Act = "examine" // have a replica and its store examined
)

var acts = []Act{ActForce, ActLimit, ActDrain, ActExamine}

// The rights to a name.
const (
	RightLock = "lock" // to acquire and extend, to set the limit of a semaphore, and to look
	RightLook = "look" // to look and to watch
)

// Client is one entry of the clients file. Streams keep it, and ask it for each name: its rights change with the file.
// A nil Client may do everything: there is no file.
type Client struct {
	name   string
	tenant lock.Tenant
	now    atomic.Pointer[rights]
}

// rights are what a Client may. A client that is no longer in the file has none. A rights value is never changed, but
// replaced.
type rights struct {
	lock, look, deny patterns
	acts             []Act
}

func newClient(name string, r rights) *Client {
	c := &Client{name: name, tenant: lock.Tenant("client " + name)}
	c.now.Store(&r)
	return c
}

// Name is the client's name in the file; empty if there is no file.
func (c *Client) Name() string {
	if c == nil {
		return ""
	}
	return c.name
}

// Tenant is for whom the client's work is counted; empty if there is no file. It never equals the tenant of an address.
func (c *Client) Tenant() lock.Tenant {
	if c == nil {
		return ""
	}
	return c.tenant
}

// MayLock is nil if the client may lock a name. Else it is a *DeniedError.
func (c *Client) MayLock(name string) error { return c.may(RightLock, name) }

// MayLook is nil if the client may look at a name. Else it is a *DeniedError. Who may lock a name may look at it.
func (c *Client) MayLook(name string) error { return c.may(RightLook, name) }

// Sees says whether the client may look at a name.
func (c *Client) Sees(name string) bool { return c.may(RightLook, name) == nil }

func (c *Client) may(right, name string) error {
	if c == nil {
		return nil
	}
	r := c.now.Load()
	switch {
	case r.deny.match(name):
		return &DeniedError{Client: c.name, Right: right, Name: name, byDeny: true}
	case r.lock.match(name), right == RightLook && r.look.match(name):
		return nil
	}
	return &DeniedError{Client: c.name, Right: right, Name: name}
}

// From is the first text, not less than text, with which a name can begin that the client may look at. So a list can
// pass over hidden names. found is false if there is none.
func (c *Client) From(text string) (first string, found bool) {
	if c == nil {
		return text, true
	}
	r := c.now.Load()
	for {
		first, found = r.lock.from(text)
		if look, may := r.look.from(text); may && (!found || look < first) {
			first, found = look, true
		}
		if !found || !r.deny.match(first) {
			return first, found
		}
		if text, found = r.deny.behind(first); !found {
			return "", false
		}
	}
}

// SeesAll says whether nothing is hidden from the client.
func (c *Client) SeesAll() bool {
	if c == nil {
		return true
	}
	r := c.now.Load()
	return len(r.deny.all) == 0 && (slices.Contains(r.lock.all, "*") || slices.Contains(r.look.all, "*"))
}

// May is nil if the client may do what operators do. Else it is a *DeniedError.
func (c *Client) May(a Act) error {
	if c == nil {
		return nil
	}
	if slices.Contains(c.now.Load().acts, a) {
		return nil
	}
	return &DeniedError{Client: c.name, Right: string(a)}
}

// MayTo is May for an act that concerns a name: the client must also be allowed to lock it.
func (c *Client) MayTo(a Act, name string) error {
	if err := c.May(a); err != nil {
		return err
	}
	return c.MayLock(name)
}

// MayToAll is May for an act that concerns whatever somebody has: the client must also be allowed to lock every name.
func (c *Client) MayToAll(a Act) error {
	if err := c.May(a); err != nil || c == nil {
		return err
	}
	if r := c.now.Load(); len(r.deny.all) > 0 || !slices.Contains(r.lock.all, "*") {
		return &DeniedError{Client: c.name, Right: RightLock, Name: "*"}
	}
	return nil
}

// Rights are what a Client may, for people.
type Rights struct {
	Lock, Look, Deny []string
	Acts             []Act
}

// Rights are what the client may now. The caller must not change them.
func (c *Client) Rights() Rights {
	if c == nil {
		return Rights{Lock: []string{"*"}, Look: []string{"*"}, Acts: acts}
	}
	r := c.now.Load()
	return Rights{Lock: r.lock.all, Look: r.look.all, Deny: r.deny.all, Acts: r.acts}
}

// DeniedError says which right is missing.
type DeniedError struct {
	Client string
	Right  string // RightLock, RightLook, or an Act
	Name   string // empty for an Act
	byDeny bool   // a deny pattern has the name
}

func (e *DeniedError) Error() string {
	verb := e.Right
	if verb == RightLook {
		verb = "look at"
	}
	text := fmt.Sprintf("the client %q of the clients file may not %s %q", e.Client, verb, e.Name)
	switch {
	case e.Name == "":
		return fmt.Sprintf("the client %q of the clients file has no admin right %q", e.Client, e.Right)
	case e.byDeny:
		return text + ": it is in its deny list"
	}
	return text
}
