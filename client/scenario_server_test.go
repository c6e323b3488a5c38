package client_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// serve has the server do something.
func (s *scenario) serve(what string, words []string) {
	f, at := s.f, -1
	if len(words) > 0 {
		if n, err := strconv.Atoi(words[0]); err == nil { // the number of a stream
			at, words = n, words[1:]
		}
	}
	switch what {
	case "cut", "gone", "end":
		f.stream(at).stop <- map[string]error{"cut": errCut, "gone": errGone}[what]
	case "push":
		for _, m := range s.messages(words) {
			f.stream(at).sendRaw(m)
		}
	case "lose": // NAME REASON
		f.mu.Lock()
		h := f.held[words[0]]
		f.mu.Unlock()
		f.stream(at).send(0, &lockdv1.Lost{
			Hold: &lockdv1.Hold{
				Name: words[0], Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Holder: h.holder, Fence: h.fence,
			},
			Reason: lockdv1.Lost_Reason(lockdv1.Lost_Reason_value["REASON_"+words[1]]),
		})
	case "forget":
		f.mu.Lock()
		delete(f.held, words[0])
		f.mu.Unlock()
	case "answer":
		s.mu.Lock()
		n := len(s.later)
		if len(words) > 0 { // the first one
			n = 1
		}
		later := s.later[:n]
		s.later = s.later[n:]
		s.mu.Unlock()
		for _, f := range later {
			f()
		}
	case "down", "up":
		f.mu.Lock()
		for _, at := range words {
			f.down[map[string]string{"A": addrA, "B": addrB}[at]] = what == "down"
		}
		f.mu.Unlock()
	case "far", "valid":
		f.mu.Lock()
		*map[string]*time.Duration{"far": &f.far, "valid": &f.valid}[what] = s.duration(words[0])
		f.mu.Unlock()
	case "stop":
		f.grpc.Stop()
	case "start":
		f.start()
	default:
		s.tell(what)
	}
}

// tell says what the server knows.
func (s *scenario) tell(what string) {
	f := s.f
	names := strings.Join(f.names(), " ")
	f.mu.Lock()
	defer f.mu.Unlock()
	switch what {
	case "names":
		s.say("names", "%s", cmp.Or(names, "none"))
	case "streams":
		over := func(st *fakeStream) bool { return st.stream.Context().Err() != nil }
		s.say("streams", "%d of %d", len(slices.DeleteFunc(slices.Clone(f.streams), over)), len(f.streams))
	case "dialled":
		s.say("dialled", "%s", strings.NewReplacer(addrA, "A", addrB, "B").Replace(strings.Join(f.dialled[s.dials:], " ")))
		s.dials = len(f.dialled)
	case "watched":
		s.say("watched", "%s", cmp.Or(f.watched, "none"))
	default:
		s.t.Fatalf("%s: nobody knows %s", s.line, what)
	}
}

// messages are those of a server as JSON has them.
func (s *scenario) messages(words []string) (all []*lockdv1.SessionResponse) {
	for _, word := range words {
		m := &lockdv1.SessionResponse{}
		s.check(protojson.Unmarshal([]byte(word), m))
		all = append(all, m)
	}
	return all
}

// hook has the fate of a request happen, which was said for its verb or for all.
func (s *scenario) hook(st *fakeStream, r *lockdv1.SessionRequest) bool {
	m := r.ProtoReflect()
	verb := string(m.WhichOneof(m.Descriptor().Oneofs().Get(0)).Name())
	if r.GetOpen().GetResume() != nil {
		verb = "resume"
	}
	s.mu.Lock()
	if s.fates[verb] == nil {
		verb = "all"
	}
	words := s.fates[verb]
	if n := slices.Index(words, "then"); n >= 0 {
		words, s.fates[verb] = words[:n], words[n+1:]
	}
	s.mu.Unlock()
	return len(words) > 0 && s.fate(st, r, verb, words)
}

// fields are those of a message that have one of some names, wherever they are.
func fields(m proto.Message, names []string) (text string) {
	var walk func(name string, value any)
	walk = func(name string, value any) {
		if slices.Contains(names, name) {
			text += fmt.Sprintf(" %s=%v", name, value)
			return
		}
		switch v := value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				walk(name, v[name])
			}
		case []any:
			for _, inner := range v {
				walk("", inner)
			}
		}
	}
	var value any
	if text, err := protojson.Marshal(m); err == nil {
		_ = json.Unmarshal(text, &value)
	}
	walk("", value)
	return text
}

// fate has something happen to a request, and says whether that is all.
func (s *scenario) fate(st *fakeStream, r *lockdv1.SessionRequest, verb string, words []string) bool {
	switch words[0] {
	case "passes":
		return false
	case "told": // FIELDS
		s.say("server", "%s%s", verb, fields(r, strings.Split(words[1], ",")))
		return len(words) > 2 && s.fate(st, r, verb, words[2:])
	case "silent":
	case "deaf":
		<-st.stream.Context().Done()
	case "kept":
		s.mu.Lock()
		s.later = append(s.later, func() { st.serve(r) })
		s.mu.Unlock()
	case "late":
		time.AfterFunc(s.duration(words[1]), func() { st.serve(r) })
	case "slow":
		time.Sleep(s.duration(words[1]))
		return len(words) > 2 && s.fate(st, r, verb, words[2:])
	case "done", "cut", "gone", "end":
		if words[0] == "done" { // and nobody hears of it
			s.f.mu.Lock()
			delete(s.f.held, r.GetRelease().GetName())
			if resume := r.GetOpen().GetResume(); resume != nil {
				s.f.records[resume.GetSessionId()].epoch = resume.GetEpoch()
			}
			s.f.mu.Unlock()
		}
		st.stop <- map[string]error{"done": errCut, "cut": errCut, "gone": errGone}[words[0]]
	case "refused":
		var code codes.Code
		s.check(code.UnmarshalJSON([]byte(strconv.Quote(words[1]))))
		if r.GetOpen() != nil {
			st.stop <- refusal(code, words[2])
			return true
		}
		st.send(r.GetRequestId(), failure(code, words[2]))
	case "answered":
		for _, m := range s.messages(words[1:]) {
			m.RequestId = r.GetRequestId()
			st.sendRaw(m)
		}
	default:
		s.t.Errorf("%s: no such fate", s.line)
	}
	return true
}
