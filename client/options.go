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

// DefaultAnswerTimeout is how long a call waits for an answer that is due at once, unless WithAnswerTimeout says
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

// WithName names this program for people who look at locks, in at most 128 bytes.
func WithName(name string) Option { return func(s *settings) { s.open.ClientName = name } }

// WithLabels tells people who look at sessions more about this program, in at most 32 labels.
func WithLabels(labels map[string]string) Option { return func(s *settings) { s.open.Labels = labels } }

// WithSessionTTL asks for a session TTL: how long auto leases outlive this client's last sign of life. If short, a
// crashed client's locks are free soon. If long, a holder survives longer interruptions. The default is the server's,
// usually 30 s.
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

// WithConnectWait bounds how long a call waits for a connection before it returns ErrUnavailable. The default 0 is no
// bound of its own: Lock waits until its context ends, other calls as long as for an answer.
func WithConnectWait(d time.Duration) Option { return func(s *settings) { s.connectWait = d } }

// WithAnswerTimeout bounds how long TryLock, Unlock, Extend and other calls wait for the server's answer, connecting
// included, if their context has no deadline. It bounds Watch whatever the context, and Lock with Wait from the end of
// its wait. After that they return ErrOutcomeUnknown, or ErrUnavailable if the request was surely not sent or changes
// nothing. The default is DefaultAnswerTimeout.
func WithAnswerTimeout(d time.Duration) Option { return func(s *settings) { s.answerWithin = d } }

// WithOnStatus has f called when the relation with the server changes: in order, one call at a time. While f does not
// return up to 64 Statuses wait; of more the oldest are dropped. f may call all methods of the Client. After Close no
// call begins. f is told of the Clients of WithTTL, too: the TTL of the Status says of which.
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

// conn makes a connection of gRPC, which connects when it is used. It reads the files of TLS. The user's options
// override the defaults.
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

// LockOption changes what one Lock, LockAll, TryLock or TryLockAll asks for.
type LockOption func(*request)

// Wait bounds how long Lock waits, also while there is no connection; after d it returns ErrTimedOut. If the server
// does not answer then, Lock waits on for the time of WithAnswerTimeout and returns ErrOutcomeUnknown. Without Wait it
// waits until its context ends. Wait(0) tries once. TryLock ignores Wait.
func Wait(d time.Duration) LockOption {
	return func(r *request) { r.wait, r.bounded = max(d, 0), true }
}

// Lease asks for a fixed lease, which ends after d unless it is extended, even while this client lives. Without this
// option the server renews the lease for as long as it hears this client.
func Lease(d time.Duration) LockOption {
	return func(r *request) { r.acquire.Lease = durationpb.New(d) }
}

// MaxHold bounds how long the lock is held, so that a holder that hangs does not keep it for ever: the lease is not
// renewed beyond d after the grant. The lock is then lost with a *LostError that says MaxHold, 1 % and 2 ms before d
// has passed, because clocks differ. Extend, MakeAuto and further locks of the same Holder do not move this end. Lock
// returns ErrUnsupported if the server does not know MaxHold, and ErrInvalid with Lease or if the server does not allow
// d.
func MaxHold(d time.Duration) LockOption {
	return func(r *request) { r.acquire.MaxHold = durationpb.New(d) }
}

// Holder names the holder. Lock calls with the same holder on the same Client are reentrant: each gets a Lock with the
// same fence, at once or together with the first, and the name is free when all of them are unlocked. Without this
// option every Lock call is a holder of its own.
func Holder(name string) LockOption { return func(r *request) { r.acquire.Holder = name } }

// Annotation gives the lock a text for people who look at it.
func Annotation(text string) LockOption { return func(r *request) { r.acquire.Annotation = text } }

// As asks for another kind than Exclusive.
func As(k Kind) LockOption {
	return func(r *request) { r.acquire.Kind = lockdv1.LockKind(k) }
}

// Permits asks for n permits of a Semaphore, all or none: 1,000 at most, and 0 means 1. limit is how many permits the
// semaphore has: the first request that states a limit sets it, a later one that states another gets a *LimitError. A
// limit of 0 is whatever was set.
func Permits(n, limit uint32) LockOption {
	return func(r *request) {
		r.acquire.Kind, r.acquire.Permits, r.acquire.Limit = lockdv1.LockKind(Semaphore), n, limit
	}
}

// OnQueued has f told how many requests wait before this one: when it begins to wait, also anew after an interruption,
// and when the number changes. 0 is the next. For a Fair lock the requests at all replicas count, for other kinds those
// at the same replica. Lock itself calls f and waits for it.
func OnQueued(f func(position int)) LockOption {
	return func(r *request) { r.onQueued = f }
}

// OnHeld has f told, for people, who holds the lock that this request waits for: at once if the replica that answers
// knows, else after a second or more, and again when it is somebody else. f is not called while the holder is not
// known. RetryAfter is 0. Lock itself calls f and waits for it.
func OnHeld(f func(by *HeldError)) LockOption {
	return func(r *request) { r.onHeld, r.acquire.TellHolder = f, true }
}
