package hostile

import (
	"math"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// Unknown is an id that nobody chose.
const Unknown = uint64(1e18)

// Far is a time that no server means: hundreds of millions of years.
func Far() *durationpb.Duration { return &durationpb.Duration{Seconds: 1e16} }

// Past is such a time, but negative.
func Past() *durationpb.Duration { return &durationpb.Duration{Seconds: -1e16, Nanos: -1} }

// Other is the hold of a lock that nobody asks for.
func Other() *lockdv1.Hold {
	return &lockdv1.Hold{Name: "other", Kind: lockdv1.LockKind_LOCK_KIND_EXCLUSIVE, Holder: "#1", Fence: 7}
}

func valid() *lockdv1.Validity { return &lockdv1.Validity{Remaining: durationpb.New(time.Minute)} }

// Answers are each wrong as the answer to most requests.
func Answers() []proto.Message {
	text := strings.Repeat("X", 1<<16)
	return []proto.Message{
		&lockdv1.Opened{SessionId: "other"},
		&lockdv1.Granted{},
		&lockdv1.Granted{Holds: []*lockdv1.Hold{Other()}, Validity: valid(), Auto: true},
		&lockdv1.Granted{Holds: []*lockdv1.Hold{Other(), {Kind: 99}}, Validity: valid(), Auto: true},
		&lockdv1.NotGranted{Cause: 99, HeldBy: text, HeldFor: Far(), RetryAfter: &durationpb.Duration{
			Seconds: math.MaxInt64, Nanos: math.MaxInt32,
		}},
		&lockdv1.Queued{Position: math.MaxUint32, HeldBy: text, HeldFor: Past()},
		&lockdv1.Released{Remaining: math.MaxUint32},
		&lockdv1.Extended{Validity: &lockdv1.Validity{Anchor: Unknown, AnchorAge: Past(), Remaining: Far()}},
		&lockdv1.Result{},
		&lockdv1.Result{Failure: &lockdv1.Failure{Code: 77, Message: text, Reason: text}},
		&lockdv1.Looked{},
		&lockdv1.Looked{Lock: &lockdv1.LockState{Kind: 99, Ttl: &durationpb.Duration{
			Seconds: math.MaxInt64, Nanos: math.MaxInt32,
		}}},
		&lockdv1.HoldList{Locks: []*lockdv1.HeldLock{{}}},
		&lockdv1.LimitSet{Previous: math.MaxUint32},
	}
}

// Pushes are each wrong at the moment at which they are sent.
func Pushes() []proto.Message {
	return []proto.Message{
		&lockdv1.HeartbeatAck{SentId: Unknown, ValidFor: Past()},
		&lockdv1.HeartbeatAck{ValidFor: Far()},
		&lockdv1.Lost{Hold: Other(), Reason: 99, Cause: 99},
		&lockdv1.Lost{},
		&lockdv1.AtRisk{Validity: &lockdv1.Validity{Remaining: Past()}},
		&lockdv1.AtRisk{Validity: &lockdv1.Validity{AnchorAge: Far(), Remaining: Far()}},
		&lockdv1.Safe{},
		&lockdv1.Unlocked{Name: "job", Hold: "x", Merged: math.MaxUint32},
		&lockdv1.Unwatched{Name: "unknown"},
		&lockdv1.Draining{ReconnectWithin: Far()},
		&lockdv1.Draining{ReconnectWithin: Past()},
		&lockdv1.Closing{Failure: &lockdv1.Failure{Code: 77}},
		&lockdv1.ResponseBatch{},
	}
}

// Openings are wrong answers to Open, by what is wrong with them.
func Openings() map[string]*lockdv1.Opened {
	second, nano := durationpb.New(time.Second), durationpb.New(1)
	opened := func(ttl, interval *durationpb.Duration) *lockdv1.Opened {
		return &lockdv1.Opened{SessionId: "s", ResumeToken: "t", SessionTtl: ttl, HeartbeatInterval: interval}
	}
	all := map[string]*lockdv1.Opened{
		"no interval":       opened(second, nil),
		"a short interval":  opened(second, nano),
		"a long interval":   opened(second, Far()),
		"a negative TTL":    opened(Past(), second),
		"a short TTL":       opened(nano, second),
		"a long TTL":        opened(Far(), second),
		"tiny limits":       opened(second, second),
		"no session":        {SessionTtl: second, HeartbeatInterval: second},
		"holds of nobody":   opened(second, second),
		"losses of nothing": opened(second, second),
	}
	all["tiny limits"].Limits = &lockdv1.Limits{NameBytes: 1, FrameBytes: 1, NamesPerAcquire: 1}
	odd := Other()
	odd.Kind = 99
	all["holds of nobody"].Resumed = []*lockdv1.HeldLock{{Hold: Other()}, {Hold: odd}, {}}
	all["losses of nothing"].Lost = []*lockdv1.Lost{{}, {Hold: Other()}}
	return all
}
