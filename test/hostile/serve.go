package hostile

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// wrong is shown each request. It says whether it has dealt with it; else the request is served as usual.
type wrong func(s *stream, r *lockdv1.SessionRequest) bool

// Serve starts servers that behave wrongly, each on a port of its own, and returns their addresses by what they do.
func Serve(ctx context.Context) (addresses map[string]string, stop func(), err error) {
	return serve(ctx, wrongs())
}

func serve(ctx context.Context, all map[string]wrong) (addresses map[string]string, stop func(), err error) {
	addresses = make(map[string]string)
	var servers []*grpc.Server
	stop = func() {
		for _, s := range servers {
			s.Stop()
		}
	}
	for name, does := range all {
		lis, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
		if err != nil {
			stop()
			return nil, nil, err
		}
		s := grpc.NewServer()
		lockdv1.RegisterSessionServiceServer(s, &server{wrong: does})
		servers = append(servers, s)
		addresses[name] = lis.Addr().String()
		go func() { _ = s.Serve(lis) }()
	}
	return addresses, stop, nil
}

// tooLong is more than a client takes as a message.
var tooLong = strings.Repeat("x", 17<<20)

// wrongs are all there is.
func wrongs() map[string]wrong {
	all := map[string]wrong{
		"never answers Open": func(_ *stream, r *lockdv1.SessionRequest) bool { return r.GetOpen() != nil },
		"answers nothing":    func(_ *stream, r *lockdv1.SessionRequest) bool { return asks(r) },
		"ends at once":       func(s *stream, _ *lockdv1.SessionRequest) bool { return s.end() },
		"ends when asked":    func(s *stream, r *lockdv1.SessionRequest) bool { return asks(r) && s.end() },
		"refuses Open":       refusesOpen,
		"answers twice":      twice,
		"grants unasked":     grantsUnasked,
		"pushes for ever":    pushesForEver,
		"lists for ever":     listsForEver,
		"drains for ever":    drainsForEver,
		"beats late":         beatsLate,
		"answers too long":   answers(&lockdv1.Result{Failure: &lockdv1.Failure{Code: 3, Message: tooLong}}),
	}
	for name, m := range Openings() {
		all["opens with "+name] = func(s *stream, r *lockdv1.SessionRequest) bool {
			return r.GetOpen() != nil && s.send(r.GetRequestId(), m)
		}
	}
	for i, m := range Answers() {
		all[fmt.Sprint("answers with ", m.ProtoReflect().Descriptor().Name(), " ", i)] = answers(m)
	}
	for i, m := range Pushes() {
		all[fmt.Sprint("tells ", m.ProtoReflect().Descriptor().Name(), " ", i)] = tells(m)
	}
	return all
}

// asks says whether a request is one of a caller.
func asks(r *lockdv1.SessionRequest) bool {
	return r.GetOpen() == nil && r.GetHeartbeat() == nil && r.GetGoodbye() == nil
}

func answers(m proto.Message) wrong {
	return func(s *stream, r *lockdv1.SessionRequest) bool { return asks(r) && s.send(r.GetRequestId(), m) }
}

func tells(m proto.Message) wrong {
	return func(s *stream, r *lockdv1.SessionRequest) bool {
		if r.GetOpen() == nil {
			s.send(0, m)
		}
		return false
	}
}

func refusesOpen(s *stream, r *lockdv1.SessionRequest) bool {
	return r.GetOpen() != nil && s.send(0, &lockdv1.Closing{Failure: &lockdv1.Failure{Code: 77, Reason: "NEVER_HEARD_OF"}})
}

func twice(s *stream, r *lockdv1.SessionRequest) bool {
	if asks(r) {
		s.serve(r)
	}
	return false
}

func grantsUnasked(s *stream, r *lockdv1.SessionRequest) bool {
	if asks(r) {
		granted := &lockdv1.Granted{Holds: []*lockdv1.Hold{Other()}, Validity: valid(), Auto: true}
		s.send(Unknown, granted)
		s.send(0, granted)
	}
	return false
}

// pushesForEver tells the state of the leases as fast as it is read, and positions of whoever waits.
func pushesForEver(s *stream, r *lockdv1.SessionRequest) bool {
	if r.GetAcquire() == nil {
		return false
	}
	go func() {
		for i := uint32(0); s.send(0, &lockdv1.AtRisk{Validity: valid()}); i++ {
			s.send(r.GetRequestId(), &lockdv1.Queued{Position: i, HeldBy: "somebody"})
		}
	}()
	return true
}

func listsForEver(s *stream, r *lockdv1.SessionRequest) bool {
	return r.GetListHolds() != nil && s.send(r.GetRequestId(), &lockdv1.HoldList{NextPageToken: "more"})
}

// drainsForEver asks the client to leave each stream.
func drainsForEver(s *stream, r *lockdv1.SessionRequest) bool {
	if r.GetOpen() == nil {
		return false
	}
	s.serve(r)
	return s.send(0, &lockdv1.Draining{})
}

// beatsLate takes its time for a heartbeat. It is right in what it says: that counts from when the heartbeat was sent.
func beatsLate(_ *stream, r *lockdv1.SessionRequest) bool {
	if r.GetHeartbeat() != nil {
		time.Sleep(late)
	}
	return false
}

// late is a good part of the interval of heartbeats.
const late = 600 * time.Millisecond

type server struct {
	lockdv1.UnimplementedSessionServiceServer
	wrong wrong
}

// stream is one of a session.
type stream struct {
	grpc  grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]
	ended atomic.Bool
	fence uint64

	mu sync.Mutex // guards sending
}

// Session serves one stream until it ends.
func (v *server) Session(g grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]) error {
	s := &stream{grpc: g}
	for !s.ended.Load() {
		m, err := g.Recv()
		if err != nil {
			return nil //nolint:nilerr // however the client left
		}
		requests := []*lockdv1.SessionRequest{m}
		if b := m.GetBatch(); b != nil {
			requests = b.GetRequests()
		}
		for _, r := range requests {
			if !v.wrong(s, r) {
				s.serve(r)
			}
		}
	}
	return nil
}

// end ends the stream without a word, and says that the request is dealt with.
func (s *stream) end() bool {
	s.ended.Store(true)
	return true
}

// send sends a message, and says whether it could.
func (s *stream) send(id uint64, message proto.Message) bool {
	m, of := &lockdv1.SessionResponse{RequestId: id}, proto.Clone(message).ProtoReflect()
	fields := m.ProtoReflect().Descriptor().Oneofs().Get(0).Fields()
	for i := range fields.Len() {
		if fields.Get(i).Message() == of.Descriptor() {
			m.ProtoReflect().Set(fields.Get(i), protoreflect.ValueOfMessage(of))
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grpc.Send(m) == nil
}

// serve answers as a lockd would at which nobody ever waits.
func (s *stream) serve(r *lockdv1.SessionRequest) {
	id := r.GetRequestId()
	switch t := r.GetMessage().(type) {
	case *lockdv1.SessionRequest_Open:
		s.send(id, &lockdv1.Opened{
			SessionId: "s", ResumeToken: "t", SessionTtl: durationpb.New(time.Minute),
			HeartbeatInterval: durationpb.New(time.Second), Features: []lockdv1.Feature{lockdv1.Feature_FEATURE_BATCH},
			Limits: &lockdv1.Limits{NameBytes: 512, MaxHold: durationpb.New(time.Hour)},
		})
	case *lockdv1.SessionRequest_Heartbeat:
		s.send(0, &lockdv1.HeartbeatAck{SentId: t.Heartbeat.GetSentId(), ValidFor: durationpb.New(time.Minute)})
	case *lockdv1.SessionRequest_Acquire:
		s.send(id, s.grant(t.Acquire))
	case *lockdv1.SessionRequest_Release:
		s.send(id, &lockdv1.Released{})
	case *lockdv1.SessionRequest_Extend:
		s.send(id, &lockdv1.Extended{Validity: valid()})
	case *lockdv1.SessionRequest_Look:
		s.send(id, &lockdv1.Looked{Lock: &lockdv1.LockState{Name: t.Look.GetName()}})
	case *lockdv1.SessionRequest_ListHolds:
		s.send(id, &lockdv1.HoldList{})
	case *lockdv1.SessionRequest_SetLimit:
		s.send(id, &lockdv1.LimitSet{Previous: 1})
	case *lockdv1.SessionRequest_Goodbye:
		s.end()
	default:
		s.send(id, &lockdv1.Result{})
	}
}

// grant is what was asked for.
func (s *stream) grant(a *lockdv1.Acquire) *lockdv1.Granted {
	g := &lockdv1.Granted{Validity: valid(), HoldCount: 1, Auto: a.GetLease() == nil}
	items := a.GetItems()
	if len(items) == 0 {
		items = []*lockdv1.AcquireItem{{Name: a.GetName(), Kind: a.GetKind()}}
	}
	for _, i := range items {
		s.fence++
		g.Holds = append(g.Holds, &lockdv1.Hold{
			Name: i.GetName(), Kind: i.GetKind(), Holder: cmp.Or(a.GetHolder(), fmt.Sprint("#", s.fence)), Fence: s.fence,
		})
	}
	return g
}
