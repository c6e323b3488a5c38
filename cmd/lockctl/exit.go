package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/lockd-io/lockd/client"
)

// The exit codes; those above 1 are those of sysexits.h.
const (
	exitFailed      = 1
	exitUsage       = 64
	exitUnavailable = 69
	exitLost        = 70
	exitNotObtained = 75
	exitDenied      = 77
	exitNotRunnable = 126 // as shells do
	exitNotFound    = 127
	exitSignal      = 128
)

// usageError is a mistake in the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// codeError ends lockctl with a code, and in silence if err is nil.
type codeError struct {
	code int
	err  error
}

func (e codeError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e codeError) Unwrap() error { return e.err }

// signalError: lockctl was asked to end.
type signalError struct{ sig syscall.Signal }

// Error is empty: whoever sent the signal knows.
func (e signalError) Error() string { return "" }

// codes gives each error its exit code. The first row that matches counts: a lost lock is lost whatever the cause,
// and a wait that ended without a connection says more about the server than about the lock.
var codes = []struct {
	err  error
	code int
}{
	{client.ErrLost, exitLost},
	{client.ErrOutcomeUnknown, exitUnavailable},
	{client.ErrUnavailable, exitUnavailable},
	{client.ErrDraining, exitUnavailable},
	{client.ErrUnsupported, exitUnavailable},
	{client.ErrHeld, exitNotObtained},
	{client.ErrTimedOut, exitNotObtained},
	{client.ErrQuota, exitNotObtained},
	{client.ErrStoreFull, exitNotObtained},
	{client.ErrInvalid, exitUsage},
	{client.ErrDenied, exitDenied},
}

func exitCode(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[codeError](err); ok {
		return e.code
	}
	if e, ok := errors.AsType[signalError](err); ok {
		return exitSignal + int(e.sig)
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	for _, row := range codes {
		if errors.Is(err, row.err) {
			return row.code
		}
	}
	return exitFailed
}

// message is what people and scripts are told of an error: the reason first, if there is one.
func message(err error) string {
	if err == nil || err.Error() == "" {
		return ""
	}
	if reason := client.Reason(err); reason != "" {
		return reason + ": " + err.Error()
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return "USAGE: " + err.Error()
	}
	return err.Error()
}

func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// interruptible is a context that ends, with a signalError as its cause, when lockctl is asked to end.
func interruptible(parent context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(parent)
	signals := make(chan os.Signal, 1)
	notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		select {
		case sig := <-signals:
			cancel(signalError{sig.(syscall.Signal)})
		case <-ctx.Done():
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		cancel(nil)
	}
}

// notify is signal.Notify without the signals that lockctl was started to ignore, as by nohup.
func notify(c chan<- os.Signal, signals ...syscall.Signal) {
	for _, sig := range signals {
		if !signal.Ignored(sig) {
			signal.Notify(c, sig)
		}
	}
}
