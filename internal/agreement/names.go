package agreement

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/lock"
	"github.com/lockd-io/lockd/internal/observe"
)

const nameRemedy = "give each replica a name of its own: replica in its file, or LOCKD_REPLICA"

// names are what this replica knows of the names of the others. Lists, logs and traces tell replicas apart by name
// alone, so two of one name pass for one. No lock depends on it.
type names struct {
	asked  bool
	others int     // that have the same name
	last   error   // of the last time
	files  []named // which clients files the others have
}

// named is what a replica answers.
type named struct {
	Replica string `json:"replica"`
	ID      string `json:"id"`
	Clients string `json:"clients,omitempty"` // the clients file; empty if there is none
}

// askNames asks once. If not all answer, nobody of the same name among them is no news.
func (a *Agreement) askNames(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	answers, asked, err := a.peers.Ask(ctx, struct{}{})
	others := 0
	var files []named
	for _, other := range answers {
		if other.ID != a.ID {
			files = append(files, other)
		}
		if other.Replica == a.Name && other.ID != a.ID {
			others++
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	n := &a.names
	n.last = err
	if err == nil && (len(differing(files, a.clients())) > 0 || len(answers) == asked) {
		n.files = files
	}
	if err != nil || others == 0 && len(answers) < asked {
		return
	}
	before := n.others
	n.others, n.asked = others, true
	a.shared.Set(float64(others))
	switch {
	case others > 0 && before == 0:
		a.log.Warn("other replicas have the name of this one", zap.String(observe.KeyReplica, a.Name),
			zap.Int(observe.KeyCount, others), zap.String(observe.KeyRemedy, nameRemedy))
	case others == 0 && before > 0:
		a.log.Info("no other replica has the name of this one any more", zap.String(observe.KeyReplica, a.Name))
	}
}

// OtherClients are the replicas whose clients file, when they were last asked, was another one than this replica has
// now, each with its file.
func (a *Agreement) OtherClients() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return differing(a.names.files, a.clients())
}

func differing(files []named, mine string) (differ []string) {
	for _, other := range files {
		if other.Clients != mine {
			differ = append(differ, fmt.Sprintf("%s (%s)", other.Replica, cmp.Or(other.Clients, "none")))
		}
	}
	slices.Sort(differ)
	return differ
}

// finding tells what was answered the last time.
func (n names) finding() lock.Finding {
	f := lock.Finding{Severity: lock.SeverityOK, Check: "REPLICA_NAME", Detail: "no other replica has this name"}
	switch {
	case n.others > 0:
		f.Severity, f.Remedy = lock.SeverityWarning, nameRemedy
		f.Detail = fmt.Sprintf("other replicas have this name, too (%d): lists and logs do not tell them apart", n.others)
	case n.last != nil:
		f.Severity, f.Detail = lock.SeverityInfo, "could not be looked at: "+n.last.Error()
	case !n.asked:
		f.Severity, f.Detail = lock.SeverityInfo, "could not be looked at: not all replicas have answered yet"
	}
	return f
}
