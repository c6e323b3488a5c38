package e2e

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// notUTF8 is an Acquire whose name is not UTF-8. The stubs refuse to write that; as an unknown field it passes.
func notUTF8(id uint64) *lockdv1.SessionRequest {
	m := &lockdv1.SessionRequest{RequestId: id}
	name := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), []byte{'a', 0xff})
	m.ProtoReflect().SetUnknown(protowire.AppendBytes(protowire.AppendTag(nil, 4, protowire.BytesType), name))
	return m
}

func TestBadRequestsAreAnsweredAndTheServerStands(t *testing.T) {
	d, rc := oneReplica(t)
	conn := d.Connect(t)
	witness := open(t, conn, &lockdv1.Open{SessionTtl: seconds(60)})
	witness.take(1, "witness")

	const invalid, absurd = codes.InvalidArgument, 1 << 40
	named := func(name string) *lockdv1.SessionRequest { return acquire(9, &lockdv1.Acquire{Name: name}) }
	for name, row := range map[string]struct {
		request *lockdv1.SessionRequest
		code    codes.Code
		reason  string
	}{
		"no name":              {named(""), invalid, "INVALID_NAME"},
		"513 bytes of name":    {named(strings.Repeat("n", 513)), invalid, "INVALID_NAME"},
		"a line break":         {named("a\nb"), invalid, "INVALID_NAME"},
		"a NUL":                {named("a\x00b"), invalid, "INVALID_NAME"},
		"an escape":            {named("\x1b[2J"), invalid, "INVALID_NAME"},
		"an open brace":        {named("a{b"), invalid, "INVALID_NAME"},
		"a closing brace":      {named("a}b"), invalid, "INVALID_NAME"},
		"an empty tag":         {named("a{}{b}"), invalid, "INVALID_NAME"},
		"braces the wrong way": {named("}a{"), invalid, "INVALID_NAME"},
		"invalid UTF-8":        {notUTF8(9), invalid, "INVALID_MESSAGE"},
		"a negative wait":      {acquire(9, &lockdv1.Acquire{Name: "a", Wait: seconds(-1)}), invalid, "INVALID_DURATION"},
		"an absurd wait": {
			acquire(9, &lockdv1.Acquire{Name: "a", Wait: &durationpb.Duration{Seconds: absurd}}),
			invalid, "INVALID_DURATION",
		},
		"a negative lease": {acquire(9, &lockdv1.Acquire{Name: "a", Lease: seconds(-1)}), invalid, "INVALID_DURATION"},
		"no lease at all":  {acquire(9, &lockdv1.Acquire{Name: "a", Lease: seconds(0)}), invalid, "INVALID_DURATION"},
		"an absurd lease": {
			acquire(9, &lockdv1.Acquire{Name: "a", Lease: &durationpb.Duration{Seconds: absurd}}),
			invalid, "INVALID_DURATION",
		},
		"signs that differ": {
			acquire(9, &lockdv1.Acquire{Name: "a", Lease: &durationpb.Duration{Seconds: 1, Nanos: -1}}),
			invalid, "INVALID_DURATION",
		},
		"an unknown kind":   {acquire(9, &lockdv1.Acquire{Name: "a", Kind: 77}), invalid, "INVALID_KIND"},
		"a reserved holder": {acquire(9, &lockdv1.Acquire{Name: "a", Holder: "#1"}), invalid, "INVALID_HOLDER"},
		"no request id":     {acquire(0, &lockdv1.Acquire{Name: "a"}), invalid, "INVALID_REQUEST_ID"},
		"a repeated id":     {acquire(1, &lockdv1.Acquire{Name: "a"}), codes.AlreadyExists, "REQUEST_ID_REPEATED"},
		"a second Open": {
			&lockdv1.SessionRequest{RequestId: 9, Message: openWith(&lockdv1.Open{}).Message},
			codes.FailedPrecondition, "SESSION_ALREADY_OPEN",
		},
		"a frame too large": {
			acquire(9, &lockdv1.Acquire{Name: "a", Annotation: strings.Repeat("x", 1<<20)}),
			codes.ResourceExhausted, "FRAME_TOO_LARGE",
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := open(t, conn, &lockdv1.Open{})
			c.take(1, "mine "+name)
			c.send(row.request)
			m := c.recv()
			f := m.GetResult().GetFailure()
			if m.GetRequestId() != row.request.GetRequestId() ||
				codes.Code(f.GetCode()) != row.code || f.GetReason() != row.reason {
				t.Errorf("got %v, want %v %s", m, row.code, row.reason)
			}
			if err := c.CloseSend(); err != nil { // the stream lives: what it holds is released in order
				t.Error(err)
			}
			if st := c.end(); st.Message() != "EOF" {
				t.Errorf("the stream ended with %v", st)
			}
		})
	}
	for name, row := range map[string]struct {
		first  *lockdv1.SessionRequest
		code   codes.Code
		reason string
	}{
		"a request before Open": {acquire(1, &lockdv1.Acquire{Name: "a"}), codes.FailedPrecondition, "SESSION_NOT_OPEN"},
		"a negative TTL":        {openWith(&lockdv1.Open{SessionTtl: seconds(-1)}), invalid, "INVALID_DURATION"},
		"an absurd TTL": {
			openWith(&lockdv1.Open{SessionTtl: &durationpb.Duration{Seconds: absurd}}), invalid,
			"INVALID_DURATION",
		},
		"a frame far too large": {openWith(
			&lockdv1.Open{ClientName: strings.Repeat("x", 5<<20)}), codes.ResourceExhausted, "no ErrorInfo"}, // gRPC's own
	} {
		t.Run(name, func(t *testing.T) {
			c := raw(t, conn)
			_ = c.Send(row.first) // the stream says why it ended
			if st := c.end(); st.Code() != row.code || reasonOf(st) != row.reason {
				t.Errorf("got %v %s, want %v %s", st.Code(), reasonOf(st), row.code, row.reason)
			}
		})
	}

	witness.take(2, "witness 2")
	if found := keys(t, rc); len(found) != 2 {
		t.Errorf("Redis has %q, want what the witness holds and nothing else", found)
	}
}
