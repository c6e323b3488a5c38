package main

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/test/harness"
)

// hostile is what others may have put into a text: a title, a forged row, colours by C0 and C1, a reversed direction,
// invisible characters, a column.
const hostile = "x\x1b]0;title\a\nforged " +
	"row\rforged\t\u009b31m\x7f\u202egnirts\u2066\u200b\ufeff\u2028\u3164\U000e0041  1h \\ \""

func TestPrintable(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"invoice:4711":        "invoice:4711",
		"Käse 鍵 🔒 \\ \" '":    "Käse 鍵 🔒 \\ \" '",
		"a\nb\tc\x1b[1m\x00d": `a\nb\tc\x1b[1m\x00d`,
		"\u202e\u200b\u009b":  `\u202e\u200b\u009b`,
		"\U000e0041\u00a0":    `\U000e0041\u00a0`,
		"\xff\xc3":            "\ufffd\ufffd",
		"\ufffd":              "\ufffd",
	} {
		if got := printable(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
	if got, want := cell(" a  b   c "), `\x20a \x20b \x20 c\x20`; got != want {
		t.Errorf("cell: got %q, want %q", got, want)
	}
	var buf bytes.Buffer
	var back string
	harness.Must(t, printJSON(&buf, hostile))
	if err := json.Unmarshal(buf.Bytes(), &back); err != nil || back != hostile {
		t.Errorf("JSON: got %q, %v", back, err)
	}
	wantSafe(t, "JSON", buf.String())
}

// wantSafe checks that an output has only visible characters, and no line that a text forged.
func wantSafe(t *testing.T, what, out string) {
	t.Helper()
	if !utf8.ValidString(out) {
		t.Errorf("%s: not UTF-8: %q", what, out)
	}
	for line := range strings.Lines(out) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "forged") {
			t.Errorf("%s: a forged line in %q", what, out)
		}
		for _, r := range line {
			if !visible(r) {
				t.Errorf("%s: %U in %q", what, r, out)
				break
			}
		}
	}
}

// spoil sets all texts of a message to what is hostile, in all messages inside.
func spoil(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case depth == 0 || f.Name() == "next_page_token":
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString(hostile).MapKey(), protoreflect.ValueOfString(hostile))
		case f.IsList() && f.Message() != nil:
			spoil(m.Mutable(f).List().AppendMutable().Message(), depth-1)
		case f.Message() != nil && f.Message().FullName() == "google.protobuf.Duration":
			m.Set(f, protoreflect.ValueOfMessage(durationpb.New(1e9).ProtoReflect()))
		case f.Message() != nil:
			spoil(m.Mutable(f).Message(), depth-1)
		case f.Kind() == protoreflect.StringKind && f.IsList():
			m.Mutable(f).List().Append(protoreflect.ValueOfString(hostile))
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString(hostile))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.Uint32Kind:
			m.Set(f, protoreflect.ValueOfUint32(1))
		case f.Kind() == protoreflect.Uint64Kind:
			m.Set(f, protoreflect.ValueOfUint64(1))
		case f.Kind() == protoreflect.DoubleKind:
			m.Set(f, protoreflect.ValueOfFloat64(1))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(1))
		}
	}
}

// hostileServer answers every call with hostile texts: in its answers, or in its errors.
type hostileServer struct {
	lockdv1.UnimplementedLockServiceServer
	lockdv1.UnimplementedInspectServiceServer
	lockdv1.UnimplementedAdminServiceServer
	lockdv1.UnimplementedSessionServiceServer
	fails bool
}

func hostileError() error {
	st, err := status.New(grpccodes.FailedPrecondition,
		hostile).WithDetails(&errdetails.ErrorInfo{Reason: hostile, Domain: "lockd.io"})
	if err != nil {
		return err
	}
	return st.Err()
}

func (h *hostileServer) intercept(_ context.Context, _ any, info *grpc.UnaryServerInfo,
	_ grpc.UnaryHandler,
) (any, error) {
	if h.fails {
		return nil, hostileError()
	}
	name := strings.ReplaceAll(strings.TrimPrefix(info.FullMethod, "/"), "/", ".")
	d, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, err
	}
	out, err := protoregistry.GlobalTypes.FindMessageByName(d.(protoreflect.MethodDescriptor).Output().FullName())
	if err != nil {
		return nil, err
	}
	m := out.New()
	spoil(m, 5)
	return m.Interface(), nil
}

func (*hostileServer) Session(grpc.BidiStreamingServer[lockdv1.SessionRequest, lockdv1.SessionResponse]) error {
	return hostileError()
}

func startHostile(t *testing.T, fails bool) string {
	t.Helper()
	h := &hostileServer{fails: fails}
	return serve(t, func(s *grpc.Server) {
		lockdv1.RegisterLockServiceServer(s, h)
		lockdv1.RegisterInspectServiceServer(s, h)
		lockdv1.RegisterAdminServiceServer(s, h)
		lockdv1.RegisterSessionServiceServer(s, h)
	}, grpc.UnaryInterceptor(h.intercept))
}

// Every command, against a server that tells hostile texts wherever it can, prints nothing but visible characters.
func TestNoOutputReachesTheTerminalRaw(t *testing.T) {
	t.Parallel()
	walked := map[string]bool{"help": true, "version": true, "completion": true}
	rows := [][]string{
		{"ls"},
		{"inspect", hostile},
		{"waiters", hostile},
		{"waiters"},
		{"deadlocks"},
		{"history", hostile},
		{"history", hostile, "--at", "1ms"},
		{"top", "--once"},
		{"sessions"},
		{"status"},
		{"acquire", hostile, "--lease", "1s"},
		{"extend", hostile, hostile, "--lease", "1s"},
		{"release", hostile, hostile},
		{"release", hostile, hostile, "--keep", "1"},
		{"limit", hostile},
		{"limit", hostile, "2"},
		{"limit", "n", hostile},
		{"unlock", hostile, "--force", "--reason", hostile},
		{"end", hostile, "--force", "--reason", hostile},
		{"drain"},
		{"drain", "--undo"},
		{"doctor"},
		{"doctor", "--all"},
		{"whoami"},
		{"can", "lock", hostile},
		{"exec", hostile, "--annotation", hostile, "--client-name", hostile, "--wait", "300ms", "--", "true"},
		{"exec", "n", "--", hostile},
		{"bench", "--duration", "10ms"},
		{hostile},
		{"ls", "--" + hostile},
		{"ls", "-o", hostile},
		{"ls", "--addr", hostile},
		{"exec", "n", "--kind", hostile, "--", "true"},
	}
	for _, fails := range []bool{false, true} {
		server := startHostile(t, fails)
		for _, row := range rows {
			walked[row[0]] = true
			for _, format := range []string{outputText, outputJSON} {
				args := append([]string{"--addr", server, "--admin-addr", server, "-o", format, "--connect-timeout", "300ms"},
					row...)
				r := call(t, args...)
				wantSafe(t, "stdout of "+row[0], r.stdout)
				wantSafe(t, "stderr of "+row[0], r.stderr)
				if r.stdout+r.stderr == "" && row[0] != "release" {
					t.Errorf("%q printed nothing", row)
				}
			}
		}
	}
	walked["watch"] = true // until it is interrupted
	var p screen
	eventView{Event: "unlocked", Name: hostile, Cause: hostile}.text(&p)
	canView{Error: hostile}.text(&p)
	wantSafe(t, "watch and can", p.String())
	for _, cmd := range newRoot(&options{}).Commands() {
		if !walked[cmd.Name()] {
			t.Errorf("%s is not walked", cmd.Name())
		}
	}
}

// spoilt is a message in which everything is set.
func spoilt(m proto.Message) proto.Message {
	spoil(m.ProtoReflect(), 5)
	return m
}

func TestViewsHaveWhatTheyShow(t *testing.T) {
	for _, v := range []any{
		view[inspectView](spoilt(&lockdv1.InspectResponse{})), view[listedView](spoilt(&lockdv1.HoldInfo{})),
		view[waitingView](spoilt(&lockdv1.WaiterInfo{})), view[sessionView](spoilt(&lockdv1.SessionInfo{})),
		view[deadlocksView](spoilt(&lockdv1.ListDeadlocksResponse{})),
		view[statusView](spoilt(&lockdv1.GetStatusResponse{})), view[doctorView](spoilt(&lockdv1.ExamineResponse{})),
		view[whoamiView](spoilt(&lockdv1.WhoAmIResponse{})), view[happenedView](spoilt(&lockdv1.EventInfo{})),
		view[busyView](spoilt(&lockdv1.BusyInfo{})),
	} {
		var out bytes.Buffer
		harness.Must(t, printJSON(&out, v))
		text := strings.NewReplacer(`"replicas_silent":0`, "", `"worst":""`, "").Replace(out.String()) // are not in a message
		if found := regexp.MustCompile(`"\w+":(""|0|null|false|\[\]|\{\})`).FindAllString(text, -1); found != nil {
			t.Errorf("%T: empty are %q", v, found)
		}
	}
}
