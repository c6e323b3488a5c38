package client

import (
	"cmp"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// DefaultAnswerTimeout is how long an answer that is due at once is waited for, unless WithAnswerTimeout says
// otherwise.
const DefaultAnswerTimeout = 5 * time.Second

// Option changes what Dial does.
type Option func(*settings)

type settings struct {
	open         lockdv1.Open // what the server is told
	connectWait  time.Duration
	answerWithin time.Duration
	onStatus     func(Status)
	telling      chan struct{} // full while onStatus is called; shared with the Clients of WithTTL
	tls          *TLS
	tokenPath    string
	token        credentials.PerRPCCredentials // of tokenPath, nil if that is empty
	dial         []grpc.DialOption
}

// WithName tells people who look at locks which program this is. At most 128 bytes.
func WithName(name string) Option { return func(s *settings) { s.open.ClientName = name } }

// WithLabels tells people more about this program. At most 32.
func WithLabels(labels map[string]string) Option { return func(s *settings) { s.open.Labels = labels } }

// WithSessionTTL asks for how long leases outlive the last sign of life of this client. Short: a crashed client's
// locks are free soon. Long: a holder survives longer interruptions between server and store. The default is the
// server's, usually 30 s.
func WithSessionTTL(ttl time.Duration) Option {
	return func(s *settings) {
		if ttl > 0 {
			s.open.SessionTtl = durationpb.New(ttl)
		}
	}
}

// WithReleaseOnDisconnect has the server release everything as soon as the stream breaks, instead of letting the
// leases run out. Others get the locks sooner; but this client may need a moment longer than the server to notice
// that its stream broke, and in that moment a lock can have two holders. Use it where a resource checks fences or
// where being fast matters more.
func WithReleaseOnDisconnect() Option {
	return func(s *settings) { s.open.OnDisconnect = lockdv1.OnDisconnect_ON_DISCONNECT_RELEASE }
}

// WithConnectWait bounds how long Lock waits for a connection before it returns ErrUnavailable. The default 0 is no
// bound: it waits until its context ends. Watch waits as long, or as WithAnswerTimeout says if that is longer.
func WithConnectWait(d time.Duration) Option { return func(s *settings) { s.connectWait = d } }

// WithAnswerTimeout bounds how long TryLock, Unlock, Extend and the like wait for the server's answer, and TryLock for
// a connection, when their context has no deadline; Watch in any case; and Lock with Wait beyond that. Then they return
// ErrOutcomeUnknown, or ErrUnavailable if the request was surely not sent. The default is DefaultAnswerTimeout.
func WithAnswerTimeout(d time.Duration) Option { return func(s *settings) { s.answerWithin = d } }

// WithOnStatus has f called when the relation with the server changes, in order, one call at a time. What it is told
// late because it does not return has changed since, and of more than 64 the oldest are passed over. It may call all
// methods of the Client. After Close no call begins.
// It is told of the Clients of WithTTL, too; the TTL of the Status says which.
func WithOnStatus(f func(Status)) Option {
	telling := make(chan struct{}, 1)
	return func(s *settings) { s.onStatus, s.telling = f, telling }
}

// WithDialOptions adds gRPC options: credentials (the default is what WithTLS says), a dialer, interceptors.
func WithDialOptions(opts ...grpc.DialOption) Option {
	return func(s *settings) { s.dial = append(s.dial, opts...) }
}

// window is how far the server may send ahead of what this client reads. Without a fixed value gRPC measures the
// connection with a ping for each frame of data, which costs both sides more than the data.
const window = 512 << 10

// largest bounds a message of the server. Opened tells of all holds of a session that goes on; no other message is
// nearly as large.
const largest = 16 << 20

// conn makes a connection, which connects when it is used. It reads the files of TLS. The user's options override the
// defaults.
func (s *settings) conn(target string) (*grpc.ClientConn, error) {
	creds, err := s.tls.Credentials()
	if err != nil {
		return nil, err
	}
	opts := []grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDisableServiceConfig(), // it would be asked of DNS before each connection, with several questions
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 20 * time.Second, Timeout: 10 * time.Second}),
		grpc.WithStaticStreamWindowSize(window),
		grpc.WithStaticConnWindowSize(window),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(largest)),
	}
	if s.token != nil {
		opts = append(opts, grpc.WithPerRPCCredentials(s.token))
	}
	return grpc.NewClient(target, append(opts, s.dial...)...)
}

// readable refuses texts that no message can have: no session could ever be opened with them.
func (s *settings) readable() error {
	err := errors.Join(
		checkText("INVALID_CLIENT", "the client's name", s.open.GetClientName(), 0),
		checkText("INVALID_ACTOR", "the actor", s.open.GetActor(), 0),
	)
	for key, value := range s.open.GetLabels() {
		err = cmp.Or(err, checkText("INVALID_CLIENT", "a label of the client", key+" "+value, 0))
	}
	return err
}

// LockOption changes what one Lock or LockAll asks for, or its Try.
type LockOption func(*request)

// Wait bounds how long Lock waits, also while there is no connection; then it returns ErrTimedOut. A server that does
// not answer gets the time of WithAnswerTimeout beyond that; then Lock returns ErrOutcomeUnknown. Without Wait it waits
// until its context ends. Wait(0) tries once. TryLock ignores it.
func Wait(d time.Duration) LockOption {
	return func(r *request) { r.wait, r.bounded = max(d, 0), true }
}

// Lease asks for a fixed lease: it ends after d unless it is extended, also while this client lives. Without it the
// lease is renewed for as long as this client is heard.
func Lease(d time.Duration) LockOption {
	return func(r *request) { r.acquire.Lease = durationpb.New(d) }
}

// MaxHold bounds how long the lock is held: d after the grant the lease is not renewed any more, so that a holder that
// hangs does not keep the lock for ever. The lock is then lost with a *LostError that says MaxHold, 1 % and 2 ms before
// d has passed, for clocks that differ. Nothing prolongs it: Extend, MakeAuto and further locks of the same Holder
// reach no further. A server that does not know MaxHold is ErrUnsupported. MaxHold with Lease, or of less or more than
// the server allows, is ErrInvalid.
func MaxHold(d time.Duration) LockOption {
	return func(r *request) { r.acquire.MaxHold = durationpb.New(d) }
}

// Holder names the holder. Lock calls with the same holder on the same Client are reentrant: each gets a Lock with
// the same fence, at once or together with the first, and the name is free after each was unlocked. Without it every
// Lock call is a holder of its own.
func Holder(name string) LockOption { return func(r *request) { r.acquire.Holder = name } }

// Annotation is for people who look at the lock.
func Annotation(text string) LockOption { return func(r *request) { r.acquire.Annotation = text } }

// As asks for another kind than Exclusive.
func As(k Kind) LockOption {
	return func(r *request) { r.acquire.Kind = lockdv1.LockKind(k) }
}

// Permits asks for n permits of a Semaphore, all or none; 0 is 1, and 1,000 are the most. limit is how many there are:
// the first request that states it sets it, a later one that states another gets a *LimitError. 0 is whatever was set.
func Permits(n, limit uint32) LockOption {
	return func(r *request) {
		r.acquire.Kind, r.acquire.Permits, r.acquire.Limit = lockdv1.LockKind(Semaphore), n, limit
	}
}

// OnQueued has f told how many others wait before this request: once if it has to wait, and again when that is another
// number, or when it waits anew after an interruption. 0 is the next. For a Fair lock it counts all that wait anywhere,
// for other kinds those on the same replica. f is called by Lock itself, which returns no lock meanwhile.
func OnQueued(f func(position int)) LockOption {
	return func(r *request) { r.onQueued = f }
}

// OnHeld has f told who is in the way of a request that waits, for people: at once if the server that answers knows,
// else after a second or more, and again when it is somebody else. Nothing is told while nobody is known, and
// RetryAfter is 0. f is called by Lock itself, which returns no lock meanwhile.
func OnHeld(f func(by *HeldError)) LockOption {
	return func(r *request) { r.onHeld, r.acquire.TellHolder = f, true }
}
