package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/lockd-io/lockd/internal/limits"
	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/peers"
	"github.com/lockd-io/lockd/internal/session"
)

const (
	// examined is how many sessions or leases a replica looks at for one page. A filter may let few of them pass.
	examined = 10_000
	// listBytes bounds a page of one replica, and annotationBytes what is told of an annotation in it.
	listBytes       = 1 << 20
	annotationBytes = 256
)

// Filter says what a list has. A zero field lets all pass.
type Filter struct {
	Prefix   string        `json:"prefix,omitempty"`
	Client   string        `json:"client,omitempty"` // is contained in the client's name
	Replica  string        `json:"replica,omitempty"`
	MinAge   time.Duration `json:"min_age,omitempty"`
	Detached bool          `json:"detached,omitempty"` // of sessions; MinAge then is for how long
	Identity string        `json:"identity,omitempty"` // of sessions: whose they are, in the clients file
}

// About is what a question is about.
type About uint8

// What replicas are asked about.
const (
	AboutNames    About = iota // who holds Question.Names, and who waits for them
	AboutSessions              // a page of the list of them
	AboutLeases                // of sessions
	AboutWaiters
	AboutReplicas // nothing: it says that the one who asks is there
	AboutEvents   // a page of what happened to Question.Names
	AboutBusiest  // names
	AboutEnding   // of the session Question.After, by Question.Forced
)

// Question asks a replica what it knows.
type Question struct {
	About About `json:"about,omitempty"`
	// Of AboutNames: how many holders and waiters of each name are told at most, and who is about to release the names by
	// force, if anybody is.
	Names   []string        `json:"names,omitempty"`
	Holders int             `json:"holders,omitempty"`
	Waiters int             `json:"waiters,omitempty"`
	Forced  *session.Forced `json:"forced,omitempty"`
	// Of a list: the key of the last thing on the page before, and how many there may be on this one.
	After  string `json:"after,omitempty"`
	Size   int    `json:"size,omitempty"`
	Filter Filter `json:"filter"`
	// By is the replica that asks.
	By Replica `json:"by"`
	// Period has the events that are asked for, and Order is that of the busiest names.
	Period Period `json:"period"`
	Order  Order  `json:"order,omitempty"`
}

// Knowledge is what a replica knows.
type Knowledge struct {
	Names    map[string]Known `json:"names,omitempty"`
	Sessions []Session        `json:"sessions,omitempty"`
	Ended    bool             `json:"ended,omitempty"` // of a session that was to end: nobody goes on with it
	Leases   []Leased         `json:"leases,omitempty"`
	Waiters  []Waiter         `json:"waiters,omitempty"`
	Events   []Event          `json:"events,omitempty"`
	Busiest  []Busy           `json:"busiest,omitempty"`
	// Memory is that of the replica By, and Others are those that it has heard of.
	Memory *Memory  `json:"memory,omitempty"`
	By     Replica  `json:"by"`
	Others []Memory `json:"others,omitempty"`
	// Reached is the key up to which the replica looked, if there may be more behind that.
	Reached string `json:"reached,omitempty"`
	// Took is how long it took to find all that.
	Took time.Duration `json:"took,omitempty"`
}

// Leased is a lease of a session, with its place in the order.
type Leased struct {
	Key    string `json:"key"`
	Name   string `json:"name"`
	Holder Holder `json:"holder"`
}

// Known is what a replica knows of a name: no more holders and waiters than were asked for, and how many wait.
type Known struct {
	Holders []Holder `json:"holders,omitempty"`
	Waiters []Waiter `json:"waiters,omitempty"`
	Waiting int      `json:"waiting,omitempty"`
}

// Listed is a name that is held, and one of its holders.
type Listed struct {
	Lock   session.LockInfo
	Holder Holder
}

// Asking is how many replicas answered.
type Asking struct {
	Answered, Asked int
	// Unasked is why the store, or the others through it, could not be asked; empty if all were.
	Unasked string
}

// unasked is what people are told of an error of the store that may pass; empty for any other one. An operator is not
// to be blind while the store is away.
func unasked(err error) string {
	switch {
	case errors.Is(err, lock.ErrNoQuorum):
		return lock.ErrNoQuorum.Error()
	case errors.Is(err, lock.ErrUnavailable):
		return lock.ErrUnavailable.Error()
	case errors.Is(err, lock.ErrOutcomeUnknown):
		return "the store did not answer"
	}
	return ""
}

// SessionsEverywhere lists sessions of all replicas, ordered by id, and says after which one the next page begins.
func (d *Inspector) SessionsEverywhere(ctx context.Context, f Filter, after string,
	size int,
) ([]Session, string, Asking, error) {
	q := Question{About: AboutSessions, After: after, Size: size, Filter: f}
	return everywhere(ctx, d, q, func(p Knowledge) []Session { return p.Sessions })
}

// LeasesEverywhere lists leases of sessions of all replicas, ordered by their keys.
func (d *Inspector) LeasesEverywhere(ctx context.Context, f Filter, after string,
	size int,
) ([]Leased, string, Asking, error) {
	q := Question{About: AboutLeases, After: after, Size: size, Filter: f}
	return everywhere(ctx, d, q, func(p Knowledge) []Leased { return p.Leases })
}

// WaitersEverywhere lists requests that wait at any replica, those that wait longest first.
func (d *Inspector) WaitersEverywhere(ctx context.Context, f Filter, size int) ([]Waiter, Asking, error) {
	pages, asking, err := d.askAll(ctx, Question{About: AboutWaiters, Size: size, Filter: f})
	var all []Waiter
	for _, p := range pages {
		all = append(all, p.Waiters...)
	}
	slices.SortStableFunc(all, func(v, w Waiter) int { return cmp.Compare(w.Age, v.Age) })
	return all[:min(len(all), size)], asking, err
}

// NamesEverywhere lists a page of the names that are held, anywhere, and one holder of each. Only the store knows all
// names.
func (d *Inspector) NamesEverywhere(ctx context.Context, prefix, cursor string,
	size int,
) ([]Listed, string, Asking, error) {
	states, next, err := d.Locks(ctx, prefix, cursor, size)
	if err != nil || len(states) == 0 {
		return nil, next, Asking{}, err
	}
	q := Question{Holders: 1}
	for _, st := range states {
		q.Names = append(q.Names, st.Name)
	}
	pages, asking, err := d.askAll(ctx, q)
	if err != nil {
		return nil, "", asking, err
	}
	all := make([]Listed, 0, len(states))
	for _, st := range states {
		all = append(all, named(st, pages))
	}
	return all, next, asking, nil
}

// named puts together what the store and the replicas know of a name. Where the store names the holder, only that one
// counts.
func named(st session.LockInfo, pages []Knowledge) Listed {
	l := Listed{Lock: st, Holder: Holder{
		Owner: st.Owner, Origin: originOf(st.Owner), Kind: st.Kind, Session: sessionOf(st.Owner), TTL: st.TTL,
		Fence: st.Fence, Count: st.Count,
	}}
	if st.Owner == "" {
		l.Holder.Origin = 0
	}
	l.Lock.Waiters = 0
	for _, p := range pages {
		k := p.Names[st.Name]
		l.Lock.Waiters += k.Waiting
		for _, h := range k.Holders {
			if st.Owner == "" || h.Owner == st.Owner {
				h.TTL, h.Annotation = st.TTL, Shortened(h.Annotation)
				l.Holder, l.Lock.Client, l.Lock.Annotation = h, h.Client.Name, h.Annotation
			}
		}
	}
	return l
}

// askAll collects a page of each replica. At most limits.Listings calls do so at a time.
func (d *Inspector) askAll(ctx context.Context, q Question) ([]Knowledge, Asking, error) {
	if err := d.listings.Enter(ctx, limits.ListingPatience); err != nil {
		return nil, Asking{}, err
	}
	defer d.listings.Leave()
	return d.ask(ctx, q)
}

// mostTook is what is paid for an answer of a replica at most: what took longer was a processor that was busy with
// others, or stood still.
const mostTook = time.Second

// ask asks all replicas. If the store is away, what some of them know is better than an error.
func (d *Inspector) ask(ctx context.Context, q Question) ([]Knowledge, Asking, error) {
	q.By = d.self()
	known, asked, err := d.peers.Ask(ctx, q)
	for _, k := range known {
		d.others.heard(k.By)
		bill(ctx, min(k.Took, mostTook))
	}
	if errors.Is(err, peers.ErrBusy) {
		err = d.Denied("inspections", peers.MaxQuestions)
	}
	why := unasked(err)
	if why != "" && len(known) > 0 {
		err = nil
	}
	return known, Asking{len(known), asked, why}, err
}

// listed is a thing in a list that has pages.
type listed interface {
	key() string // the things are ordered by it
	passes(f Filter) bool
}

// everywhere makes one page of those of the replicas. It ends at the first key at which a replica that has more
// stopped.
func everywhere[T listed](ctx context.Context, d *Inspector, q Question,
	of func(Knowledge) []T,
) (all []T, next string, asking Asking, err error) {
	pages, asking, err := d.askAll(ctx, q)
	for _, p := range pages {
		all = append(all, of(p)...)
		if p.Reached != "" && (next == "" || p.Reached < next) {
			next = p.Reached
		}
	}
	slices.SortFunc(all, func(a, b T) int { return strings.Compare(a.key(), b.key()) })
	if next != "" {
		all = slices.DeleteFunc(all, func(t T) bool { return t.key() > next })
	}
	if len(all) > q.Size {
		all = all[:q.Size]
		next = all[q.Size-1].key()
	}
	return all, next, asking, err
}

// answer is what this replica knows.
func (d *Inspector) answer(q Question) Knowledge {
	d.others.heard(q.By)
	began := time.Now()
	k := d.known(q)
	k.By, k.Took = d.self(), time.Since(began)
	return k
}

func (d *Inspector) known(q Question) Knowledge {
	if q.Filter.Replica != "" && q.Filter.Replica != d.Replica {
		return Knowledge{}
	}
	q.Size = min(max(q.Size, 1), maxPage)
	switch q.About {
	case AboutNames:
		return Knowledge{Names: d.know(q)}
	case AboutSessions:
		found, reached := collect(q, d.Local.Sessions)
		for i := range found {
			found[i].Replica = d.Replica
		}
		return Knowledge{Sessions: found, Reached: reached}
	case AboutLeases:
		leases := func(after string, size int) []Leased { return d.Local.Leases(q.Filter.Prefix, after, size) }
		found, reached := collect(q, leases)
		return Knowledge{Leases: found, Reached: reached}
	case AboutWaiters:
		return Knowledge{Waiters: d.waiting(q)}
	case AboutEvents:
		return d.happened(q)
	case AboutBusiest:
		return d.busiest(q)
	case AboutEnding:
		return d.end(q)
	default: // what only newer replicas know
		return Knowledge{}
	}
}

// maxPage is how much one page has at most.
const maxPage = 1000

// collect takes what passes a filter from an ordered list, until there is enough or enough was looked at.
func collect[T listed](q Question, list func(after string, size int) []T) (found []T, reached string) {
	after, left, looked := q.After, listBytes, 0
	for looked < examined {
		some := list(after, q.Size)
		for _, one := range some {
			after = one.key()
			looked++
			if !one.passes(q.Filter) {
				continue
			}
			found = append(found, one)
			if left -= bytesOf(one); left < 0 || len(found) == q.Size {
				return found, after
			}
		}
		if len(some) < q.Size {
			return found, ""
		}
	}
	return found, after
}

// bytesOf is how long a thing is in an answer.
func bytesOf(thing any) int {
	text, _ := json.Marshal(thing) // what cannot be written is not in the answer either
	return len(text)
}

func (s Session) key() string { return s.ID }

func (s Session) passes(f Filter) bool {
	age := s.Age
	if f.Detached {
		age = s.Detached
	}
	return strings.Contains(s.Client.Name, f.Client) && age >= f.MinAge && (!f.Detached || s.Detached > 0) &&
		(f.Identity == "" || s.Client.Identity == f.Identity)
}

func (l Leased) key() string { return l.Key }

func (l Leased) passes(f Filter) bool {
	return strings.Contains(l.Holder.Client.Name, f.Client) && l.Holder.Age >= f.MinAge
}

// Passes says whether a filter lets it pass.
func (w Waiter) Passes(f Filter) bool {
	return strings.HasPrefix(w.Name, f.Prefix) && strings.Contains(w.Client, f.Client) && w.Age >= f.MinAge
}

// waiting are the requests that wait here longest and pass a filter.
func (d *Inspector) waiting(q Question) (ws []Waiter) {
	left := listBytes
	for _, w := range d.Local.Requests(q.Filter, q.Size) {
		w.Replica, w.Annotation = d.Replica, Shortened(w.Annotation)
		ws = append(ws, w)
		if left -= bytesOf(w); left < 0 {
			break
		}
	}
	return ws
}

// know is what this replica knows of names.
func (d *Inspector) know(q Question) map[string]Known {
	all := make(map[string]Known)
	for _, name := range q.Names {
		if q.Forced != nil {
			d.forced.add(name, *q.Forced)
			d.Local.Doubt(name)
		}
		k := d.knowName(name, q.Holders, q.Waiters)
		for i := range k.Holders {
			if len(q.Names) > 1 { // for a list: many fit into one answer
				k.Holders[i].Annotation = Shortened(k.Holders[i].Annotation)
			}
		}
		for i := range k.Waiters {
			k.Waiters[i].Replica = d.Replica
		}
		if len(k.Holders) > 0 || k.Waiting > 0 {
			all[name] = k
		}
	}
	return all
}

// knowName is what this replica knows of one name. holders and waiters bound how many it tells.
func (d *Inspector) knowName(name string, holders, waiters int) Known {
	k := d.Local.Know(name, holders, waiters)
	k.Holders = append(k.Holders, d.Notes.of(name, holders-len(k.Holders))...)
	return k
}

// Shortened is the first part of an annotation, for lists.
func Shortened(annotation string) string {
	return strings.ToValidUTF8(annotation[:min(annotationBytes, len(annotation))], "") // not half a character
}
