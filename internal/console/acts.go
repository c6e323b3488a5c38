package console

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// acts are what somebody may do about a name.
type acts struct {
	Force, Limit, End bool
	Why               string // why he may do nothing; empty if he may do something
}

const onlyShows = "Without a clients file the console only shows."

// mayAct finds the acts that somebody may do. To set a limit here needs the right of an operator, though clients may
// set theirs by the API without it.
func mayAct(ctx context.Context, _ *Console, a *asker, q url.Values) (any, error) {
	if !a.mayAct() {
		return acts{Why: onlyShows}, nil
	}
	var may acts
	for verb, to := range map[string]*bool{"force": &may.Force, "limit": &may.Limit} {
		answer, err := a.inspect.Can(ctx, &lockdv1.CanRequest{Verb: verb, Name: q.Get("name")})
		if err != nil {
			return nil, err
		}
		*to = answer.GetAllowed()
	}
	if !may.Force && !may.Limit {
		may.Why = "You have neither the right force nor the right limit for this lock."
	}
	return may, nil
}

// mayEnd says whether somebody may end sessions.
func mayEnd(ctx context.Context, _ *Console, a *asker, _ url.Values) (any, error) {
	if !a.mayAct() {
		return acts{Why: onlyShows}, nil
	}
	who, err := a.inspect.WhoAmI(ctx, &lockdv1.WhoAmIRequest{})
	if err != nil {
		return nil, err
	}
	all := slices.Contains(who.GetLock(), "*") && len(who.GetDeny()) == 0
	if may := slices.Contains(who.GetAdmin(), "force") && all; may {
		return acts{End: true}, nil
	}
	return acts{Why: "You may not end sessions: that needs the right force, and to lock every name."}, nil
}

// end ends a session.
func (c *Console) end(w http.ResponseWriter, r *http.Request, a *asker) {
	id, why := r.PostFormValue("id"), strings.TrimSpace(r.PostFormValue("why"))
	if why == "" {
		c.problem(w, r, http.StatusBadRequest, "A reason is needed: the client is told, and it is in the audit.")
		return
	}
	done, err := a.admin.EndSession(r.Context(), &lockdv1.EndSessionRequest{SessionId: id, Why: why, By: "console"})
	said := "gone"
	switch {
	case done.GetReleased():
		said = "ended"
	case done.GetEnded():
		said = "left"
	case done.GetReplicasAnswered() < done.GetReplicasAsked():
		said = "unsure"
	}
	c.acted(w, r, link(c.cfg.Path, "/session", "id", id, "said", said), err)
}

// released are the kinds of holds to release by force, by the value of the form.
var released = map[string]lockdv1.LockKind{
	"": lockdv1.LockKind_LOCK_KIND_UNSPECIFIED, "read": lockdv1.LockKind_LOCK_KIND_READ,
	"write": lockdv1.LockKind_LOCK_KIND_WRITE,
}

// force releases a lock by force.
func (c *Console) force(w http.ResponseWriter, r *http.Request, a *asker) {
	name, why := r.PostFormValue("name"), strings.TrimSpace(r.PostFormValue("why"))
	if why == "" {
		c.problem(w, r, http.StatusBadRequest, "A reason is needed: the holders are told, and it is in the audit.")
		return
	}
	kind, known := released[strings.Join(r.PostForm["kind"], ",")] // several are unknown
	if !known {
		c.problem(w, r, http.StatusBadRequest, "Either all are released, or read, or write.")
		return
	}
	done, err := a.admin.ForceRelease(r.Context(), &lockdv1.ForceReleaseRequest{
		Name: name, Kind: kind, Why: why, By: "console",
	})
	said := "released"
	if err == nil && !done.GetReleased() {
		said = "free"
	}
	c.acted(w, r, c.lockPage(name, said), err)
}

// limit sets or removes the limit of a semaphore.
func (c *Console) limit(w http.ResponseWriter, r *http.Request, a *asker) {
	name := r.PostFormValue("name")
	may, err := a.inspect.Can(r.Context(), &lockdv1.CanRequest{Verb: "limit", Name: name})
	switch {
	case err != nil:
		c.acted(w, r, "", err)
	case !may.GetAllowed():
		c.problem(w, r, http.StatusForbidden, "You may not set limits here: "+may.GetFailure().GetMessage())
	case r.PostFormValue("remove") != "":
		_, err := a.admin.RemoveLimit(r.Context(), &lockdv1.RemoveLimitRequest{Name: name})
		c.acted(w, r, c.lockPage(name, "removed"), err)
	default:
		n, err := strconv.ParseUint(r.PostFormValue("limit"), 10, 32)
		if err != nil || n == 0 {
			c.problem(w, r, http.StatusBadRequest, "A limit is a whole number, 1 or more.")
			return
		}
		_, err = a.locks.SetLimit(r.Context(), &lockdv1.SetLimitRequest{Name: name, Limit: uint32(n)})
		c.acted(w, r, c.lockPage(name, "limit"), err)
	}
}

func (c *Console) lockPage(name, said string) string {
	return link(c.cfg.Path, "/lock", "name", name, "said", said)
}

// acted leads back to a page, or says what went wrong.
func (c *Console) acted(w http.ResponseWriter, r *http.Request, to string, err error) {
	if err != nil {
		c.problem(w, r, httpCode(err), explained(err))
		return
	}
	c.looks.forget() // the page that follows shows what was done
	http.Redirect(w, r, to, http.StatusSeeOther)
}
