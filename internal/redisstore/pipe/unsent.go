package pipe

import (
	"errors"
	"slices"
)

// Why a command was not sent.
var (
	ErrQueueFull    = errors.New("too many operations wait for Redis")
	ErrWaited       = errors.New("the operation waited too long for Redis and was not sent")
	ErrClosed       = errors.New("the store is closed")
	ErrNotConnected = errors.New("not connected to Redis")
)

// ErrOpTimeout is why an operation was given up that may have been sent.
var ErrOpTimeout = errors.New("redis did not answer in time")

// NeverSent says whether err means that nothing of the command was written to a connection.
func NeverSent(err error) bool {
	return slices.ContainsFunc([]error{ErrQueueFull, ErrWaited, ErrClosed, ErrNotConnected},
		func(why error) bool { return errors.Is(err, why) })
}
