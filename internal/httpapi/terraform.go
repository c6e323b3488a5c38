package httpapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// terraformPath is for lock_address and unlock_address of Terraform's backend http. The query has the name of the lock,
// and how long the lease is to last.
const terraformPath = "/v1/terraform"

// terraform locks and unlocks for Terraform. The ID of Terraform's lock is the lease id: it has 122 random bits, and
// Terraform shows it to everybody who finds the state locked, so that they can unlock it by force.
func (h *handler) terraform(w http.ResponseWriter, r *http.Request, body []byte) {
	name, lease, err := h.terraformQuery(r.URL.Query())
	if err != nil {
		h.fail(w, refusal(codes.InvalidArgument, "INVALID_MESSAGE", err.Error()))
		return
	}
	locks := r.Method == "LOCK" || r.Method == http.MethodPost || r.Method == http.MethodPut
	unlocks := r.Method == "UNLOCK" || r.Method == http.MethodDelete
	if !locks && !unlocks {
		h.fail(w, refusal(codes.Unimplemented, "UNIMPLEMENTED",
			"lockd keeps locks and no state: this is a lock_address and an unlock_address; address has to be elsewhere"))
		return
	}
	var info struct{ ID string }
	var compact bytes.Buffer
	if json.Unmarshal(body, &info) != nil || json.Compact(&compact, body) != nil || info.ID == "" {
		h.fail(w, refusal(codes.InvalidArgument, "INVALID_MESSAGE", "the body has no ID of a lock: use lockctl unlock"))
		return
	}
	if unlocks {
		answer, err := h.locks.Release(r.Context(), &lockdv1.ReleaseRequest{Name: name, LeaseId: info.ID})
		if err != nil {
			h.fail(w, err)
			return
		}
		h.write(w, http.StatusOK, answer)
		return
	}
	answer, err := h.locks.Acquire(r.Context(), &lockdv1.AcquireRequest{
		Name: name, Lease: durationpb.New(lease), LeaseId: info.ID, ClientName: "terraform", Annotation: compact.String(),
	})
	switch {
	case err != nil:
		h.fail(w, err)
	case answer.GetNotGranted() != nil:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusLocked)
		_, _ = w.Write(h.lockInfo(r.Context(), name, answer.GetNotGranted()))
	default:
		h.write(w, http.StatusOK, answer)
	}
}

func (h *handler) terraformQuery(q url.Values) (name string, lease time.Duration, err error) {
	name, lease = q.Get("name"), h.most
	if text := q.Get("lease"); text != "" {
		if lease, err = time.ParseDuration(text); err != nil {
			return "", 0, fmt.Errorf("lease is %q, must be a duration with its unit, like 2h", text)
		}
	}
	for key, values := range q {
		if key != "name" && key != "lease" || len(values) > 1 {
			return "", 0, fmt.Errorf("the parameters are name and lease, each once, and not %q", key)
		}
	}
	return name, lease, nil
}

// lockInfo is what Terraform shows of the holder of a lock: if that is Terraform, what it said of itself.
func (h *handler) lockInfo(ctx context.Context, name string, refused *lockdv1.NotGranted) []byte {
	owner, client, peer, note := refused.GetHeldBy(), refused.GetClient(), refused.GetPeer(), refused.GetAnnotation()
	if all, err := h.inspect.Inspect(ctx, &lockdv1.InspectRequest{Name: name}); err == nil && len(all.GetHolders()) > 0 {
		holder := all.GetHolders()[0]
		owner, client, peer, note = holder.GetOwner(), holder.GetClientName(), holder.GetPeer(), holder.GetAnnotation()
	}
	var info struct{ ID string }
	if json.Unmarshal([]byte(note), &info) == nil && info.ID != "" {
		return []byte(note)
	}
	text, _ := json.Marshal(map[string]string{ // texts always can be
		"ID": owner, "Who": client + " at " + peer, "Info": note, "Path": name,
	})
	return text
}
