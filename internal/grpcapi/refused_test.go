package grpcapi_test

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

type (
	// refused is a request with the reason for which it is refused, and a part of what is said.
	refused struct {
		request      proto.Message
		reason, says string
	}
	// first is what comes in the place of Open.
	first struct{ *lockdv1.SessionRequest }
	// last is what ends its session.
	last struct{ *lockdv1.SessionRequest }

	open  = lockdv1.Open
	once  = lockdv1.AcquireRequest
	names = []string
)

func openWith(o *lockdv1.Open) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{Message: &lockdv1.SessionRequest_Open{Open: o}}
}

func inBatch(requests ...*lockdv1.SessionRequest) *lockdv1.SessionRequest {
	return &lockdv1.SessionRequest{
		Message: &lockdv1.SessionRequest_Batch{Batch: &lockdv1.RequestBatch{Requests: requests}},
	}
}

// unknownField is a request with a field that the Go stubs do not know, or refuse to write.
func unknownField(id uint64, n protowire.Number, value []byte) *lockdv1.SessionRequest {
	m := &lockdv1.SessionRequest{RequestId: id}
	m.ProtoReflect().SetUnknown(field(nil, n, value))
	return m
}

// unknownArm is a request with a oneof arm that only a newer client knows.
func unknownArm(id uint64) *lockdv1.SessionRequest { return unknownField(id, 1000, []byte("new")) }

// badText is an Acquire whose name is not UTF-8.
func badText(id uint64) *lockdv1.SessionRequest {
	return unknownField(id, 4, field(nil, 1, []byte{0xff}))
}

// refusals are the requests that are refused, by what is wrong with them.
func refusals() map[string]refused {
	long := func(n int) string { return strings.Repeat("x", n) }
	on := func(a *acq) *lockdv1.SessionRequest { return acquire(9, a) }
	items := func(i ...*lockdv1.AcquireItem) *lockdv1.SessionRequest { return on(&acq{Items: i}) }
	nine := func(m *lockdv1.SessionRequest) *lockdv1.SessionRequest { m.RequestId = 9; return m }
	b, sem, large := ais{item("b", 0, 0, 0)}, ais{item("b", semaphore, 0, 0)}, &acq{Name: long(1 << 20)}
	second, absurd := seconds(1), &durationpb.Duration{Seconds: 1 << 60}
	noDuration := &durationpb.Duration{Nanos: -1, Seconds: 1}
	mine := func(name string, fence uint64) *lockdv1.SessionRequest {
		return release(9, &lockdv1.Hold{Name: name, Holder: "#1", Fence: fence}, 0)
	}
	return map[string]refused{
		"a message before Open": {first{acquire(1, &acq{Name: "job"})}, "SESSION_NOT_OPEN", ""},
		"an empty message":      {first{&lockdv1.SessionRequest{}}, "SESSION_NOT_OPEN", ""},
		"a short TTL":           {&open{SessionTtl: seconds(0.5)}, "INVALID_DURATION", "session_ttl: "},
		"a TTL of zero":         {&open{SessionTtl: seconds(0)}, "INVALID_DURATION", "session_ttl: "},
		"a negative TTL":        {&open{SessionTtl: seconds(-5)}, "INVALID_DURATION", "session_ttl: "},
		"a TTL that is none":    {&open{SessionTtl: noDuration}, "INVALID_DURATION", "session_ttl: "},
		"a long client name":    {&open{ClientName: long(129)}, "INVALID_CLIENT", "client_name: "},
		"an unknown choice":     {&open{OnDisconnect: 99}, "INVALID_MESSAGE", "on_disconnect: "},
		"an unknown policy":     {&open{Deadlock: 99}, "INVALID_MESSAGE", "deadlock: "},
		"a session to resume":   {&open{Resume: &lockdv1.Resume{SessionId: "x"}}, "SESSION_EXPIRED", ""},

		"no name":               {on(&acq{}), "INVALID_NAME", "name: "},
		"a long name":           {on(&acq{Name: long(513)}), "INVALID_NAME", "name: "},
		"control characters":    {on(&acq{Name: "a\nb"}), "INVALID_NAME", "name: "},
		"braces":                {on(&acq{Name: "a{b"}), "INVALID_NAME", "name: "},
		"name and names":        {on(&acq{Name: "a", Names: names{"b"}}), "INVALID_NAME", "name: "},
		"name and items":        {on(&acq{Name: "a", Items: b}), "INVALID_NAME", "name: "},
		"names and items":       {on(&acq{Names: names{"a"}, Items: b}), "INVALID_NAME", "name: "},
		"a name twice":          {on(&acq{Names: names{"a", "b", "a"}}), "INVALID_NAME", "names[2]: "},
		"an empty name":         {on(&acq{Names: names{"a", ""}}), "INVALID_NAME", "names[1]: "},
		"too many names":        {on(&acq{Names: names{"a", "b", "c", "d", "e"}}), "QUOTA_NAMES", ""},
		"a long holder":         {on(&acq{Name: "a", Holder: long(129)}), "INVALID_HOLDER", "holder: "},
		"a reserved holder":     {on(&acq{Name: "a", Holder: "#1"}), "INVALID_HOLDER", "holder: "},
		"a holder of permits":   {on(&acq{Name: "a", Kind: semaphore, Holder: "h"}), "INVALID_HOLDER", "holder: "},
		"a long actor":          {on(&acq{Name: "a", Actor: long(129)}), "INVALID_ACTOR", "actor: "},
		"a long annotation":     {on(&acq{Name: "a", Annotation: long(4097)}), "INVALID_ANNOTATION", "annotation: "},
		"an unknown kind":       {on(&acq{Name: "a", Kind: 77}), "INVALID_KIND", "kind: "},
		"a kind for all items":  {on(&acq{Kind: fair, Items: b}), "INVALID_KIND", "kind: "},
		"a bad item":            {items(b[0], item("c", 77, 0, 0)), "INVALID_KIND", "items[1].kind: "},
		"permits of a lock":     {on(&acq{Name: "a", Permits: 2}), "INVALID_PERMITS", "permits: "},
		"a limit of a lock":     {on(&acq{Name: "a", Kind: write, Limit: 1}), "INVALID_PERMITS", "limit: "},
		"permits of names":      {on(&acq{Names: names{"a", "b"}, Permits: 2}), "INVALID_PERMITS", "permits: "},
		"permits for all items": {on(&acq{Permits: 2, Items: sem}), "INVALID_PERMITS", "permits: "},
		"a limit for all items": {on(&acq{Limit: 2, Items: sem}), "INVALID_PERMITS", "limit: "},
		"permits of an item":    {items(sem[0], item("c", fair, 2, 0)), "INVALID_PERMITS", "items[1].permits: "},
		"a limit of an item":    {items(sem[0], item("c", 0, 0, 2)), "INVALID_PERMITS", "items[1].limit: "},
		"too many permits":      {on(&acq{Name: "a", Kind: semaphore, Permits: 3, Limit: 2}), "INVALID_PERMITS", ""},
		"permits of nothing":    {on(&acq{Name: "a", Kind: semaphore}), "LOCK_CONFIG_MISMATCH", ""},
		"a negative wait":       {on(&acq{Name: "a", Wait: seconds(-1)}), "INVALID_DURATION", "wait: "},
		"an absurd wait":        {on(&acq{Name: "a", Wait: absurd}), "INVALID_DURATION", "wait: "},
		"a wait over the max":   {on(&acq{Name: "a", Wait: seconds(1e6)}), "INVALID_DURATION", "wait: "},
		"a negative past":       {on(&acq{Name: "a", Waited: seconds(-1)}), "INVALID_DURATION", "waited: "},
		"a negative lease":      {on(&acq{Name: "a", Lease: seconds(-1)}), "INVALID_DURATION", "lease: "},
		"a lease of zero":       {on(&acq{Name: "a", Lease: seconds(0)}), "INVALID_DURATION", "lease: "},
		"an absurd lease":       {on(&acq{Name: "a", Lease: seconds(1e9)}), "INVALID_DURATION", "lease: "},
		// In our words: what callers see does not change from build to build.
		"no duration": {
			on(&acq{Name: "a", Wait: noDuration}), "INVALID_DURATION", "wait: no duration, or one of more than 10,000 years",
		},

		"a repeated id":      {acquire(1, &acq{Name: "a"}), "REQUEST_ID_REPEATED", ""},
		"no id":              {acquire(0, &acq{Name: "a"}), "INVALID_REQUEST_ID", ""},
		"a second Open":      {nine(openWith(&lockdv1.Open{})), "SESSION_ALREADY_OPEN", ""},
		"an unknown arm":     {unknownArm(9), "UNIMPLEMENTED", ""},
		"not held":           {mine("free", 0), "LOCK_NOT_HELD", ""},
		"a stale fence":      {mine("mine", 1), "FENCE_STALE", ""},
		"cancel of nothing":  {cancelOf(9, 1), "REQUEST_NOT_WAITING", ""},
		"a watch of no name": {watchOf(9, ""), "INVALID_NAME", "name: "},
		"a limit of zero":    {limitOf(9, "pool", 0), "INVALID_PERMITS", "limit: "},
		"a batch in a batch": {inBatch(nine(inBatch())), "INVALID_MESSAGE", "batch.requests[0]: "},
		"Open in a batch":    {inBatch(nine(openWith(&lockdv1.Open{}))), "INVALID_MESSAGE", "batch.requests[0]: "},

		"bad text":             {badText(9), "INVALID_MESSAGE", ""},
		"a large frame":        {acquire(9, large), "FRAME_TOO_LARGE", ""},
		"bad text without id":  {last{badText(0)}, "INVALID_MESSAGE", ""},
		"a large one without":  {last{acquire(0, large)}, "FRAME_TOO_LARGE", ""},
		"too large for gRPC":   {last{acquire(1, &acq{Name: long(5 << 20)})}, "no ErrorInfo", ""},
		"too long for a batch": {last{inBatch(make([]*lockdv1.SessionRequest, 1025)...)}, "INVALID_MESSAGE", "1024"},

		"a call without a name":      {&once{Lease: second}, "INVALID_NAME", "name: "},
		"a call without a lease":     {&once{Name: "a"}, "INVALID_DURATION", "lease: "},
		"a call with a kind":         {&once{Name: "a", Kind: 50, Lease: second}, "INVALID_KIND", "kind: "},
		"a call with a lease id":     {&once{Name: "a", Lease: second, LeaseId: "x"}, "INVALID_LEASE_ID", "lease_id: "},
		"a call with a long text":    {&once{Name: "a", Lease: second, Annotation: long(5000)}, "INVALID_ANNOTATION", ""},
		"a call with permits":        {&once{Name: "a", Lease: second, Permits: 2}, "INVALID_PERMITS", "permits: "},
		"a call for no semaphore":    {&once{Name: "a", Lease: second, Kind: semaphore}, "LOCK_CONFIG_MISMATCH", ""},
		"a call for a limit of zero": {&lockdv1.SetLimitRequest{Name: "pool"}, "INVALID_PERMITS", "limit: "},
		"a call for no page":         {&lockdv1.ListRequest{PageToken: "what?"}, "INVALID_PAGE", "page_token: "},
	}
}

// What is refused is refused with its reason, and nobody else suffers: the session lives, if it can be told, and the
// server in any case.
func TestWhatIsRefused(t *testing.T) {
	for name, row := range refusals() {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(s *server) {
				f := s.failure(row.request)
				if f.GetReason() != row.reason || codes.Code(f.GetCode()) != codeOf(row.reason) || //nolint:gosec // at most 16
					!strings.Contains(f.GetMessage(), row.says) {
					t.Errorf("got %v, want %s and %q", f, row.reason, row.says)
				}
				s.open(&lockdv1.Open{}).take(1, "job")
			})
		})
	}
}

// failure is the answer to a request.
func (s *server) failure(r proto.Message) *lockdv1.Failure {
	s.t.Helper()
	switch r := r.(type) {
	case *lockdv1.Open:
		_, err := s.refuses(r)
		return failureOf(err)
	case first:
		c := s.raw()
		c.send(r.SessionRequest)
		return failureOf(c.end())
	case last:
		c := s.open(&lockdv1.Open{})
		_ = c.Send(r.SessionRequest) // the stream may end meanwhile
		return failureOf(c.end())
	case *lockdv1.SessionRequest:
		c := s.open(&lockdv1.Open{})
		c.take(1, "mine")
		c.send(r)
		m := c.recv()
		if want := r.GetRequestId(); want != 0 && m.GetRequestId() != want {
			s.t.Errorf("answered request %d, want %d", m.GetRequestId(), want)
		}
		c.take(10, "other")
		return m.GetResult().GetFailure()
	}
	locks := lockdv1.File_lockd_v1_lock_service_proto.Services().ByName("LockService")
	name := strings.TrimSuffix(string(r.ProtoReflect().Descriptor().Name()), "Request")
	answer := newMessage(s.t, locks.Methods().ByName(protoreflect.Name(name)).Output())
	return failureOf(s.conn.Invoke(s.t.Context(), "/lockd.v1.LockService/"+name, r, answer))
}

func failureOf(err error) *lockdv1.Failure {
	st := status.Convert(err)
	code := int32(st.Code()) //nolint:gosec // at most 16
	return &lockdv1.Failure{Code: code, Message: st.Message(), Reason: reasonOf(st)}
}

func TestAStreamWithoutOpenIsClosed(t *testing.T) {
	inBubble(t, func(s *server) {
		c := s.raw()
		began := time.Now()
		wantReason(t, c.end(), "SESSION_NOT_OPEN")
		if took := time.Since(began); took != 5*time.Second {
			t.Errorf("closed after %v", took)
		}
	})
}
