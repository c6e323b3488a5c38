package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"google.golang.org/grpc/status"

	"github.com/lockd-io/lockd/client"
)

// The exit codes; those above 3 are those of sysexits.h.
const (
	exitFailed      = 1
	exitDoubtful    = 2 // doctor: the worst finding is a warning
	exitWrong       = 3 // doctor: the worst finding is an error
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

func (e signalError) Error() string { return "ended by signal: " + e.sig.String() }

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
	{client.ErrDeadlock, exitNotObtained},
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

// errNested is a lock that an exec around this one holds.
var errNested = errors.New("an exec around this one holds it, so this one would wait for its own end")

// reason is the machine-readable reason of an error, empty if there is none.
func reason(err error) string {
	if _, ok := errors.AsType[signalError](err); ok {
		return "INTERRUPTED"
	}
	for _, row := range []struct {
		err    error
		reason string
	}{{errNested, "NESTED"}, {errUnknownName, "UNKNOWN_NAME"}} {
		if errors.Is(err, row.err) {
			return row.reason
		}
	}
	if text := client.Reason(err); text != "" {
		return text
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return "USAGE"
	}
	return ""
}

// message is what people are told of an error: the reason first, if there is one. It is one line.
func message(err error) string {
	if err == nil || err.Error() == "" {
		return ""
	}
	if reason := reason(err); reason != "" {
		return reason + ": " + unreasoned(err)
	}
	return unreasoned(err)
}

// statused is an error that came from a server.
type statused interface {
	error
	GRPCStatus() *status.Status
}

// unreasoned is the text of an error without its reason, which is told apart. It is one line.
func unreasoned(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[statused](err); ok { // only its own text: a name may look like a reason
		text = strings.Replace(text, e.Error(), strings.TrimSuffix(e.Error(), " ("+reason(err)+")"), 1)
	}
	return strings.ReplaceAll(text, "\n", "; ") // errors.Join puts each on a line of its own
}

// errorView is how an error is told with -o json. Its keys are part of what lockctl promises.
type errorView struct {
	Reason string `json:"reason"` // empty if there is none
	Error  string `json:"error"`
	Code   int    `json:"exit_code"`
}

// printError tells an error, unless there is nothing to say: a command of exec failed, or somebody interrupted lockctl,
// knows it, and nothing was left behind.
func printError(w io.Writer, err error, format string) {
	text := message(err)
	_, interrupted := errors.AsType[signalError](err)
	interrupted = interrupted && !errors.Is(err, client.ErrOutcomeUnknown)
	switch {
	case text == "":
	case format == outputJSON:
		_ = printJSON(w, errorView{Reason: reason(err), Error: unreasoned(err), Code: exitCode(err)})
	case !interrupted:
		_ = printLine(w, "lockctl: %s", text)
	}
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
