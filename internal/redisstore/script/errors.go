package script

import (
	"errors"
	"strings"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/redisstore/pipe"

	"github.com/redis/go-redis/v9"
)

// verdicts says what an error reply of Redis means, by how it begins. The first match counts.
//
// Replies that mean ErrUnavailable or ErrStoreFull come either instead of running a script, or from its first write:
// Redis refuses no write of a script that has written. LOCKDKIND comes from the checks with which scripts begin. In all
// these cases nothing was done. Any other error, such as a WRONGTYPE that no check found, may have come half-way.
var verdicts = []struct {
	begins string
	means  error
}{
	{"OOM ", lock.ErrStoreFull},
	{"LOCKDKIND ", lock.ErrKindMismatch}, // ours, see fence.lua
	{readOnly, lock.ErrUnavailable},
	{"LOADING ", lock.ErrUnavailable},
	{"MASTERDOWN ", lock.ErrUnavailable},
	{"CLUSTERDOWN ", lock.ErrUnavailable},
	{"TRYAGAIN ", lock.ErrUnavailable},
	{"MOVED ", lock.ErrUnavailable},
	{"ASK ", lock.ErrUnavailable},
	{"NOREPLICAS ", lock.ErrUnavailable},
	{"MISCONF ", lock.ErrUnavailable},
	{"BUSY ", lock.ErrUnavailable},
	{"NOSCRIPT ", lock.ErrUnavailable},
	{"NOAUTH ", lock.ErrUnavailable},
	{"WRONGPASS ", lock.ErrUnavailable},
	{"NOPROTO ", lock.ErrUnavailable},
	{"DENIED ", lock.ErrUnavailable},
	{"ERR max number of clients", lock.ErrUnavailable},
	{"ERR invalid password", lock.ErrUnavailable},
	{"ERR AUTH ", lock.ErrUnavailable},
	{"ERR Client sent AUTH", lock.ErrUnavailable},
	{"ERR DB index is out of range", lock.ErrUnavailable},
}

const readOnly = "READONLY "

// isReadOnly says whether an error is the refusal of a replica.
func isReadOnly(err error) bool {
	reply, ok := errors.AsType[redis.Error](err)
	return ok && strings.HasPrefix(innerReply(reply.Error()), readOnly)
}

// Meaning is the error of package lock for an error of a call. In doubt the outcome is unknown.
func Meaning(err error) error {
	if pipe.NeverSent(err) {
		return lock.ErrUnavailable
	}
	if reply, ok := errors.AsType[redis.Error](err); ok {
		return replyMeaning(reply.Error())
	}
	return lock.ErrOutcomeUnknown
}

func replyMeaning(text string) error {
	text = innerReply(text)
	for _, v := range verdicts {
		if strings.HasPrefix(text, v.begins) {
			return v.means
		}
	}
	return lock.ErrOutcomeUnknown
}

// innerReply is an error reply without what a script put in front of it.
func innerReply(text string) string {
	// Before Redis 7.0 an error inside a script came as "ERR Error running script (...): @user_script: 7: -OOM command
	// ...". One that the script caught came as "@user_script: 7: -OOM command ...", perhaps behind the place where it was
	// raised again.
	if before, inner, ok := strings.Cut(text, "@user_script: "); ok &&
		(before == "" || strings.HasPrefix(before, "ERR ") || strings.HasPrefix(before, "@user_script:")) {
		_, text, _ = strings.Cut(inner, ": ")
		text = strings.TrimPrefix(text, "-")
	}
	return text
}
