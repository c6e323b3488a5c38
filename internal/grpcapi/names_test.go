package grpcapi_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// namePaths are the ways to all names of locks in a message: fields called name or names, at any depth.
func namePaths(m protoreflect.MessageDescriptor, seen ...protoreflect.FullName) (paths [][]protoreflect.Name) {
	if slices.Contains(seen, m.FullName()) || m.ParentFile().Package() != "lockd.v1" {
		return nil
	}
	seen = append(slices.Clip(seen), m.FullName())
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		switch {
		case f.IsMap():
		case f.Message() != nil:
			for _, path := range namePaths(f.Message(), seen...) {
				paths = append(paths, append([]protoreflect.Name{f.Name()}, path...))
			}
		case f.Name() == "name" || f.Name() == "names":
			paths = append(paths, []protoreflect.Name{f.Name()})
		}
	}
	return paths
}

// fill makes a message one that a request may be, but for a name: that at the end of the path.
func fill(m protoreflect.Message, path []protoreflect.Name, name string) {
	sound := map[protoreflect.Name]any{
		"lease_id": strings.Repeat("a", 26), "session_id": "c562c2b3-3ac7-46e1-b138-f1b67be63b9f", "limit": uint32(5),
		"fence": uint64(7), "acquired_by": uint64(1), "last_request_id": uint64(1),
		"resume_token": "token", "epoch": uint64(2),
	}
	for i := range m.Descriptor().Fields().Len() {
		f := m.Descriptor().Fields().Get(i)
		switch value, known := sound[f.Name()]; {
		case len(path) > 1 && (f.Name() == "kind" || f.Name() == "limit"): // it has parts, and they have these
		case known && !f.IsList():
			m.Set(f, protoreflect.ValueOf(value))
		case f.Name() == "kind":
			kind := lockdv1.LockKind_LOCK_KIND_EXCLUSIVE
			if m.Descriptor().Fields().ByName("limit") != nil {
				kind = lockdv1.LockKind_LOCK_KIND_SEMAPHORE
			}
			m.Set(f, protoreflect.ValueOfEnum(kind.Number()))
		case f.Name() == "lease":
			m.Set(f, protoreflect.ValueOfMessage(durationpb.New(1e10).ProtoReflect()))
		}
	}
	f := m.Descriptor().Fields().ByName(path[0])
	switch {
	case len(path) > 1 && f.IsList():
		item := m.Mutable(f).List().AppendMutable()
		fill(item.Message(), path[1:], name)
	case len(path) > 1:
		fill(m.Mutable(f).Message(), path[1:], name)
	case f.IsList():
		m.Mutable(f).List().Append(protoreflect.ValueOfString(name))
	default:
		m.Set(f, protoreflect.ValueOfString(name))
	}
}

// Whatever request has a name of a lock, now or in a later version, it refuses one that is a helper key of another
// lock.
func TestEveryRequestWithANameRefusesHelperKeys(t *testing.T) {
	const reserved = "redisson_lock_token:{victim}"
	inBubble(t, func(s *server) {
		want := func(what, reason string) {
			t.Helper()
			if reason != "NAME_RESERVED" {
				t.Errorf("%s: got %q, want NAME_RESERVED", what, reason)
			}
		}
		request := (&lockdv1.SessionRequest{}).ProtoReflect()
		arms := request.Descriptor().Oneofs().ByName("message").Fields()
		c, id, asked := s.open(&lockdv1.Open{}), uint64(0), 0
		for i := range arms.Len() {
			for _, path := range namePaths(arms.Get(i).Message()) {
				if path[0] == "requests" { // those of a batch are these
					continue
				}
				id++
				asked++
				r := &lockdv1.SessionRequest{RequestId: id}
				fill(r.ProtoReflect().Mutable(arms.Get(i)).Message(), path, reserved)
				what := string(arms.Get(i).Name()) + " " + join(path)
				if r.GetOpen() != nil {
					r.RequestId = 0
					first := s.raw()
					first.send(r)
					want(what, reasonOf(status.Convert(first.end())))
					continue
				}
				want(what, c.call(r).GetResult().GetFailure().GetReason())
			}
		}
		for service, conn := range map[string]*grpc.ClientConn{
			"LockService": s.conn, "InspectService": s.conn, "AdminService": s.admin,
		} {
			asked += s.wantUnaryRefused(service, conn, reserved, want)
		}
		if asked < 18 {
			t.Errorf("%d requests have a name, there are more", asked)
		}
	})
}

// wantUnaryRefused calls each method of a service whose request has a name, and says how many there are.
func (s *server) wantUnaryRefused(service string, conn *grpc.ClientConn, name string,
	want func(what, reason string),
) (asked int) {
	var files []protoreflect.FileDescriptor
	files = append(files, lockdv1.File_lockd_v1_lock_service_proto, lockdv1.File_lockd_v1_inspect_service_proto,
		lockdv1.File_lockd_v1_admin_service_proto)
	for _, file := range files {
		sd := file.Services().ByName(protoreflect.Name(service))
		if sd == nil {
			continue
		}
		for i := range sd.Methods().Len() {
			method := sd.Methods().Get(i)
			for _, path := range namePaths(method.Input()) {
				asked++
				req, resp := newMessage(s.t, method.Input()), newMessage(s.t, method.Output())
				fill(req.ProtoReflect(), path, name)
				full := "/lockd.v1." + service + "/" + string(method.Name())
				want(full+" "+join(path), reasonOf(status.Convert(conn.Invoke(s.t.Context(), full, req, resp))))
			}
		}
	}
	return asked
}

func newMessage(t testing.TB, d protoreflect.MessageDescriptor) proto.Message {
	t.Helper()
	mt, err := protoregistry.GlobalTypes.FindMessageByName(d.FullName())
	must(t, err)
	return mt.New().Interface()
}

func join(path []protoreflect.Name) string {
	words := make([]string, len(path))
	for i, name := range path {
		words[i] = string(name)
	}
	return strings.Join(words, ".")
}
