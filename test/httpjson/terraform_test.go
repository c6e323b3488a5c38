package httpjson

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

// lockInfo is what Terraform sends to lock and to unlock.
func lockInfo(id string) string {
	return `{"ID":"` + id + `","Operation":"OperationTypeApply","Info":"","Who":"alice@laptop","Version":"1.11.4",` +
		`"Created":"2026-11-28T01:02:03.4Z","Path":""}` + "\n"
}

// Terraform locks and unlocks by the methods that it has by default, and by those that it can be told.
func TestTerraform(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const at = "/v1/terraform?name=state/prod&lease=2h"
	const firstID, secondID = "5f9c1b44-6a1e-4d0c-8a43-0d9f3f2f7e1", "5f9c1b44-6a1e-4d0c-8a43-0d9f3f2f7e2"
	for i, verbs := range [][2]string{{"LOCK", "UNLOCK"}, {"POST", "DELETE"}, {"PUT", "DELETE"}} {
		id := firstID + strconv.Itoa(i) // none is used again
		first, second := lockInfo(id), lockInfo(secondID+strconv.Itoa(i))
		w.ask(http.StatusOK, verbs[0], at, first)
		w.ask(http.StatusOK, verbs[0], at, first) // once more, as its answer was lost
		a := w.ask(http.StatusLocked, verbs[0], at, second)
		if a.get("ID") != id || a.get("Who") != "alice@laptop" {
			t.Errorf("the holder is told as %s", a.text)
		}
		w.ask(http.StatusBadRequest, verbs[1], at, second)
		w.ask(http.StatusOK, verbs[1], at, first)
	}
	w.acquire("state/prod")
	first := lockInfo(firstID + "9")
	a := w.ask(http.StatusLocked, "LOCK", at, first)
	if id, _ := a.get("ID").(string); id == "" || !strings.Contains(a.text, "127.0.0.1") {
		t.Errorf("another holder is told as %s", a.text)
	}
	for _, row := range []struct{ method, path, body, reason string }{
		{"LOCK", at, `{"version":4,"serial":1}`, "INVALID_MESSAGE"},
		{"LOCK", at, lockInfo("short"), "INVALID_LEASE_ID"},
		{"UNLOCK", at, "", "INVALID_MESSAGE"},
		{"LOCK", "/v1/terraform?lease=2h", first, "INVALID_NAME"},
		{"LOCK", "/v1/terraform?name=a&lease=2", first, "INVALID_MESSAGE"},
		{"LOCK", "/v1/terraform?name=a&lease=200h", first, "INVALID_DURATION"},
		{"POST", "/v1/terraform?name=a&ID=1", first, "INVALID_MESSAGE"},
	} {
		if a := w.ask(http.StatusBadRequest, row.method, row.path, row.body); a.reason() != row.reason {
			t.Errorf("%s %s %s: %s", row.method, row.path, row.body, a.text)
		}
	}
}

// Terraform shows tokens as passwords.
func TestTerraformShowsItsToken(t *testing.T) {
	t.Parallel()
	s := newSecured(t)
	r, err := http.NewRequestWithContext(t.Context(), "LOCK", "https://"+s.HTTP+"/v1/terraform?name=a",
		strings.NewReader(lockInfo("5f9c1b44-6a1e-4d0c-8a43-0d9f3f2f7e11")))
	harness.Must(t, err)
	r.SetBasicAuth("lockd", token)
	resp, err := s.client.Do(r)
	harness.Must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("answered %d", resp.StatusCode)
	}
}
