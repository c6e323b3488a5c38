package redisstore

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/lock/storetest"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"
	"github.com/lockd-io/lockd/internal/redisstore/script"
	"github.com/lockd-io/lockd/internal/tier"
)

// request is an acquisition or a release, and what came of it.
type request struct {
	claim *lock.Claim
	back  *lock.Return
	outcome
}

func acquiring(name string, o lock.Owner) *request {
	return &request{claim: new(claim(name, o))}
}

func releasing(name string, o lock.Owner, f lock.Fence) *request {
	return &request{back: new(releaseOf(name, o, f))}
}

func handing(name string, o lock.Owner, f lock.Fence, successor lock.Owner) *request {
	r := releasing(name, o, f)
	r.back.Next = &lock.Successor{Owner: whole(successor), TTL: lease}
	return r
}

// goTogether has some requests go as one call, and waits for their outcomes.
func goTogether(t testing.TB, s *Store, g *gate, fate storetest.Fate, rs ...*request) {
	t.Helper()
	var wg sync.WaitGroup
	wg.Add(len(rs))
	err := g.together(s, fate, func() {
		for _, r := range rs {
			if r.claim != nil {
				r.claim.Tenant = cmp.Or(r.claim.Tenant, "one") // whose operations go in their order
				s.StartAcquire(*r.claim, func(gr lock.Grant, err error) { r.grant, r.err = gr, err; wg.Done() })
			} else {
				r.back.Tenant = cmp.Or(r.back.Tenant, "one")
				s.StartRelease(*r.back, func(res lock.Returned, err error) { r.told(res, err); wg.Done() })
			}
		}
	})
	must(t, err)
	wg.Wait()
}

func (r *request) told(res lock.Returned, err error) { r.outcome.back, r.err = res, err }

// wrong says that a request has another error than it should.
func wrong(i int, got, want error) error {
	return errors.New(fmt.Sprint("request ", i, ": got ", got, ", want ", want))
}

// wanted is a request and its error.
type wanted struct {
	*request
	err error
}

// oneCall has all go as one call with the errors they should have.
func oneCall(t testing.TB, s *Store, g *gate, wants []wanted) error {
	t.Helper()
	rs := make([]*request, len(wants))
	for i, w := range wants {
		rs[i] = w.request
	}
	g.seen()
	goTogether(t, s, g, storetest.Deliver, rs...)
	if shas := g.seen(); !slices.Equal(shas, []string{s.Scripts.Many.SHA}) {
		return fmt.Errorf("%d scripts went, want one for all", len(shas))
	}
	for i, w := range wants {
		if !errors.Is(w.outcome.err, w.err) || (w.err == nil) != (w.outcome.err == nil) {
			return wrong(i, w.outcome.err, w.err)
		}
	}
	return nil
}

// left is what there is of a name after a call for many. An owner or a request that is not given is not looked at.
type left struct {
	holders uint32
	owner   lock.Owner
	granted *request // the one with the last fence
}

// leaves says which name is not left as it should be.
func leaves(t testing.TB, s *Store, names map[string]left) error {
	t.Helper()
	for name, want := range names {
		st, err := s.Look(t.Context(), name)
		if err != nil && !errors.Is(err, lock.ErrKindMismatch) || st.Holders != want.holders ||
			want.owner != "" && st.Owner != whole(want.owner) || want.granted != nil && st.Fence != want.granted.grant.Fence {
			return fmt.Errorf("%s is %+v, %w, want %+v", name, st, err, want)
		}
	}
	return nil
}

// fullOrReplica has a call for many reach a Redis without memory, or one that became a replica, and says what is wrong
// with the outcomes.
func fullOrReplica(t testing.TB, s *Store, g *gate, c *redis.Client) error {
	t.Helper()
	held := func() (freed, handed, x, y lock.Fence) {
		must(t, c.FlushAll(t.Context()).Err())
		freed, handed = acquire(t, s, claim("freed", "a")).Fence, acquire(t, s, claim("handed", "a")).Fence
		acquire(t, s, claim("held", "x"))
		x, y = acquire(t, s, kindClaim(lock.Read, "rw", "x")).Fence, acquire(t, s, kindClaim(lock.Read, "rw", "y")).Fence
		acquire(t, s, permitsClaim("sem", "x", 1, 3))
		acquire(t, s, permitsClaim("sem", "y", 1, 3))
		return freed, handed, x, y
	}
	freed, handed, x, y := held()
	must(t, c.ConfigSet(t.Context(), "maxmemory", "1").Err())
	mine, reads := acquiring("held", "x"), reading("rw", "y")
	err := oneCall(t, s, g, []wanted{
		{releasing("freed", "a", freed), nil},
		{acquiring("new", "a"), lock.ErrStoreFull},
		{acquiring("freed", "b"), lock.ErrStoreFull},
		{mine, nil},
		{acquiring("held", "a"), lock.ErrHeld},
		{handing("handed", "a", handed, "b"), nil},
		{readDone("rw", "x", x), nil},
		{reading("rw", "a"), lock.ErrStoreFull},
		{reading("new read", "a"), lock.ErrStoreFull},
		{reads, nil},
		{permitDone("sem", "x"), nil},
		{permit("sem", "a", 0), lock.ErrStoreFull},
		{permit("sem", "y", 0), nil},
		{permit("new permits", "a", 1), lock.ErrStoreFull},
		{acquiring("last", "a"), lock.ErrStoreFull},
	})
	if err == nil && reads.grant.Fence != y {
		err = fmt.Errorf("y reads again with %v, want fence %d", reads.grant, y)
	}
	err = errors.Join(err, leaves(t, s, map[string]left{
		"freed": {}, "new": {}, "held": {1, "x", mine}, "handed": {1, "b", nil}, "last": {},
		"rw": {1, "y", reads}, "sem": {1, "", nil}, "new read": {}, "new permits": {},
	}))
	must(t, c.ConfigSet(t.Context(), "maxmemory", "0").Err())

	freed, _, x, _ = held()
	must(t, c.ReplicaOf(t.Context(), "127.0.0.1", "1").Err())
	defer func() { must(t, c.ReplicaOf(t.Context(), "NO", "ONE").Err()) }()
	return errors.Join(err, oneCall(t, s, g, []wanted{
		{acquiring("new", "a"), lock.ErrUnavailable},
		{releasing("freed", "a", freed), lock.ErrUnavailable},
		{acquiring("held", "a"), lock.ErrHeld},
		{acquiring("freed", "a"), lock.ErrUnavailable},
		{handing("freed", "a", freed, "b"), lock.ErrUnavailable},
		{readDone("rw", "x", x), lock.ErrUnavailable},
		{reading("rw", "x"), lock.ErrUnavailable},
		{reading("rw", "a"), lock.ErrUnavailable},
		{permit("sem", "a", 0), lock.ErrUnavailable},
		{permitDone("sem", "x"), lock.ErrUnavailable},
		{permitDone("sem", "a"), lock.ErrNotHeld},
	}), leaves(t, s, map[string]left{
		"new": {}, "freed": {1, "a", nil}, "held": {1, "x", nil}, "rw": {2, "x", nil}, "sem": {2, "", nil},
	}))
}

func TestEachOfManyHasItsOwnAnswer(t *testing.T) {
	t.Parallel()
	s, g, c := gated(t)
	must(t, errors.Join(fullOrReplica(t, s, g, c), sharedMixed(t, s, g, c), sharedLives(t, s, g, c)))
}

// Whatever is not wholly an answer of script/many.lua says nothing of anybody.
func TestAnAnswerThatIsNotForAllIsForNobody(t *testing.T) {
	t.Parallel()
	m, err := NewMetrics(nil)
	must(t, err)
	s := &Store{Caller: &script.Caller{Scripts: script.NewScripts(&m.Metrics, false), FenceMillis: 1, Metrics: &m.Metrics}}
	group := []pipe.Job{
		{Single: s.acquisition(*acquiring("a", "o").claim, nil)},
		{Single: s.release(*releasing("b", "o", 7).back, nil)},
	}
	good := [][]any{
		{int64(7), int64(0)},
		{[]any{int64(0), int64(5), "x"}, []any{int64(-1)}},
		{"OOM command not allowed", "LOCKDKIND x"},
	}
	bad := []any{
		[]any{int64(7)},
		[]any{int64(7), int64(0), int64(0)},
		[]any{},
		int64(7), "OOM command not allowed",
		[]any{int64(0), int64(0)},
		[]any{int64(-7), int64(0)},
		[]any{int64(7), int64(-1)},
		[]any{nil, int64(0)},
		[]any{int64(7), nil},
		[]any{int64(7), []any{}},
		[]any{int64(7), []any{"x"}},
		[]any{[]any{int64(1), int64(7)}, int64(0)},
		[]any{[]any{int64(0), int64(5)}, int64(0)},
		[]any{[]any{int64(9)}, int64(0)},
		[]any{int64(7), []any{int64(2)}},
		[]any{int64(7), []any{int64(0), int64(1), "x"}},
	}
	read := func(v any) []outcome {
		cmd := redis.NewCmd(t.Context())
		cmd.SetVal(v)
		return s.outcomes(nil, group, cmd, nil)
	}
	for _, v := range good {
		for i, o := range read(v) {
			if errors.Is(o.err, lock.ErrOutcomeUnknown) {
				t.Errorf("%v: got %v for request %d", v, o.err, i)
			}
		}
	}
	for _, v := range bad {
		for i, o := range read(v) {
			if !errors.Is(o.err, lock.ErrOutcomeUnknown) {
				t.Errorf("%v: got %+v for request %d, want unknown", v, o, i)
			}
		}
	}
	for err, want := range map[error]error{
		pipe.ReplyError("NOSCRIPT x"): lock.ErrUnavailable, pipe.ReplyError("BUSY x"): lock.ErrUnavailable,
		pipe.ReplyError("ERR Error running script: Script killed by user"): lock.ErrOutcomeUnknown,
		pipe.ReplyError("ERR user_script:3: x"):                            lock.ErrOutcomeUnknown,
		pipe.ErrNotConnected:                                               lock.ErrUnavailable,
		pipe.ErrOpTimeout:                                                  lock.ErrOutcomeUnknown,
	} {
		for i, o := range s.outcomes(nil, group, redis.NewCmd(t.Context()), err) {
			if !errors.Is(o.err, want) {
				t.Errorf("%v: got %v for request %d, want %v", err, o.err, i, want)
			}
		}
	}
}

func TestALoneRequestGoesByItsOwnScript(t *testing.T) {
	t.Parallel()
	s, g, _ := gated(t)
	f := acquire(t, s, claim("n", "o")).Fence
	release(t, s, releaseOf("n", "o", f))
	if got, want := g.seen(), []string{s.Scripts.Acquire.SHA, s.Scripts.Release.SHA}; !slices.Equal(got, want) {
		t.Errorf("got scripts %q, want %q", got, want)
	}
	rs := []*request{acquiring("n", "o"), acquiring("m", "o")}
	goTogether(t, s, g, storetest.Deliver, rs...)
	if got, want := g.seen(), []string{s.Scripts.Many.SHA}; !slices.Equal(got, want) {
		t.Errorf("got scripts %q, want %q", got, want)
	}
}

// A group is bounded, and goes in order.
func TestManyGoInCallsOfSoMany(t *testing.T) {
	t.Parallel()
	s, g, _ := gated(t)
	var rs []*request
	for i := range maxTogether + 10 {
		rs = append(rs, acquiring(fmt.Sprint("n", i), "o"))
	}
	goTogether(t, s, g, storetest.Deliver, rs...)
	if got := g.seen(); len(got) != 2 {
		t.Errorf("%d locks were taken by %d scripts, want 2", len(rs), len(got))
	}
	for _, r := range rs {
		wantErr(t, r.err, nil)
	}
}

func TestManyAreDoneByARedisThatForgotTheScript(t *testing.T) {
	t.Parallel()
	s, g, c := gated(t)
	must(t, c.ScriptFlush(t.Context()).Err())
	rs := []*request{acquiring("x", "o"), acquiring("y", "o"), acquiring("x", "o2")}
	goTogether(t, s, g, storetest.Deliver, rs...)
	for i, want := range []error{nil, nil, lock.ErrHeld} {
		wantErr(t, rs[i].err, want)
	}
}

// The tests above and the comparison are worth something only if they see bugs.
func TestPlantedBugsInCallsForManyAreFound(t *testing.T) {
	t.Parallel()
	s, _, _ := gated(t)
	lua := func(changes ...string) func(*Store, *gate, *redis.Client) {
		for i := 0; i < len(changes); i += 2 {
			if !strings.Contains(s.Scripts.Many.Text, changes[i]) {
				t.Errorf("%q is not in many.lua", changes[i])
			}
		}
		return func(s *Store, _ *gate, c *redis.Client) {
			text := strings.NewReplacer(changes...).Replace(s.Scripts.Many.Text)
			s.Scripts.Many = script.New("many", text, s.Metrics)
			must(t, c.ScriptLoad(t.Context(), text).Err())
		}
	}
	alter := func(do func([]any)) func(*Store, *gate, *redis.Client) {
		return func(s *Store, g *gate, _ *redis.Client) {
			g.alter = func(sha string, list []any) []any {
				if sha == s.Scripts.Many.SHA {
					do(list)
				}
				return list
			}
		}
	}
	plants := map[string]struct {
		plant    func(*Store, *gate, *redis.Client)
		compared bool // the random comparison finds it, too
	}{
		"answers in the wrong order": {alter(func(l []any) { slices.Reverse(l) }), true},
		"an error told to another": {alter(func(l []any) {
			for i := 1; i < len(l); i++ {
				if _, bad := l[i].(string); bad {
					l[i-1], l[i] = l[i], l[i-1]
				}
			}
		}), true},
		"an answer told to all": {alter(func(l []any) {
			for i := range l {
				l[i] = l[0]
			}
		}), true},
		"the last first": {lua("for i = i, #ops do", "for i = #ops, i, -1 do"), true},
		"half a call at OOM": {
			lua("if full then return full end", "if full then error(full) end", "pcall(claim, k, a)", "true, claim(k, a)"),
			false,
		},
		"a grant at OOM":            {lua("if full then return full end", ""), false},
		"an ordinary grant at OOM":  {lua("if full or try(", "if try("), false},
		"memory asked too late":     {lua("find(ops, '[Aabhp]')", "false"), false},
		"a fence that falls":        {lua("last >= fence or", ""), false},
		"no fence that is replaced": {lua("try('SET', token, before, 'KEEPTTL')", ""), false},
		"a release by another":      {lua("last ~= fence or try", "try"), true},
		"one of several freed":      {lua("try('HLEN', name) ~= 1 or", ""), false},
		"a fence key that ends":     {lua("last - last % half ~= fence - fence % half", "false"), false},
		"an error that ends all":    {lua("pcall(give, k, a, '')", "true, give(k, a, '')"), false},
		"a fence for all of a name": {lua("return last + 1\nend", "return now\nend"), false},

		"a page that others do not see":    {lua("if settled then settled(name) end", ""), false},
		"a page of another kind":           {lua("page.settle == settle and page", "page"), true},
		"a page that is never done":        {lua("if settled then settled() end", ""), true},
		"the last fence of many not kept":  {lua("if page.fence ~= page.kept then", "if false then"), true},
		"one fence for all readers":        {lua("page.fence = page.fence + 1", ""), true},
		"a hold that ends twice":           {lua("and not page.ends[owner]", ""), true},
		"another's hold":                   {lua("held ~= fence and (", "false and ("), true},
		"a reader beside a waiting writer": {lua("if not page.open then return nil end", ""), true},
		"a reader at OOM":                  {lua("not full and reading(name)", "reading(name)"), false},
		"a lock that outlives its readers": {lua("page.longest and page.left > (page.lasts or -1)", "false", "fields > 8",
			"fields > 1"), false},
		"permits that are not counted": {lua("if page.change ~= 0 then", "if false then"), true},
		"a permit too many":            {lua("page.available < 1 or", ""), true},
		"a permit at OOM":              {lua("not full and permits(name, out, token)", "permits(name, out, token)"), false},
		"an error of many told to nobody": {
			lua("for _, i in ipairs(page.asked) do", "for _, i in ipairs({}) do"),
			false,
		},
	}
	tier.Long(t)
	for name, p := range plants {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, g, c := gated(t)
			p.plant(s, g, c)
			found := errors.Join(fullOrReplica(t, s, g, c), sharedMixed(t, s, g, c), sharedLives(t, s, g, c),
				oddOnes(t, s, g, c), fullOrdinary(t, s, g, c))
			if found == nil {
				t.Error("the bug was not found")
			}
			t.Log(found)
			if !p.compared {
				return
			}
			must(t, c.FlushAll(t.Context()).Err())
			_, err := s.Probe(t.Context()) // sees that all was lost
			must(t, err)
			memory, scripts := comparedRigs(t, s, g, c)
			if found = storetest.Compare(t.Context(), memory, scripts, 1, 20_000); found == nil {
				t.Error("the comparison did not find the bug")
			}
			t.Log(found)
		})
	}
}
