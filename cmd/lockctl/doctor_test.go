package main

import (
	"strings"
	"testing"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

func TestDoctorOfAServerWithoutRedis(t *testing.T) {
	t.Parallel()
	r := call(t, "doctor")
	if r.code != 0 || strings.Contains(r.stdout, "READY") || !strings.Contains(r.stdout, "\n3 checks passed\n") {
		t.Errorf("got %+v, want what is fine to be counted", r)
	}
	if all := call(t, "doctor", "--all"); !strings.Contains(all.stdout, "ok     READY") {
		t.Errorf("got %q, want what is fine as well", all.stdout)
	}
	v := parse(t, call(t, "doctor", "-o", "json").stdout, "replica", "version", "uptime_ms", "store", "worst", "findings")
	list, _ := v["findings"].([]any)
	if v["worst"] != "ok" || v["store"] != "memory" || len(list) != 3 {
		t.Errorf("got %v", v)
	}
	first, _ := list[0].(map[string]any)
	for _, key := range []string{"severity", "check", "node", "detail", "remedy"} {
		if _, ok := first[key].(string); !ok || len(first) != 5 {
			t.Errorf("got %v, want the key %s", first, key)
		}
	}
}

func TestDoctorAtTheAddressForClients(t *testing.T) {
	t.Parallel()
	for _, at := range []string{addr, ""} { // where its client may have the right
		call(t, "doctor", "--admin-addr", at).want(t, exitDenied, "", "ADMIN_ONLY")
	}
}

// The exit code tells the worst finding, and the worst come first.
func TestDoctorPutsTheWorstFirst(t *testing.T) {
	finding := func(s lockdv1.Finding_Severity, check string) *lockdv1.Finding {
		return &lockdv1.Finding{Severity: s, Check: check, Node: "n", Detail: "what is so"}
	}
	v, code := viewDoctor(&lockdv1.ExamineResponse{Findings: []*lockdv1.Finding{
		finding(lockdv1.Finding_SEVERITY_OK, "A"), finding(lockdv1.Finding_SEVERITY_WARNING, "B"),
		finding(lockdv1.Finding_SEVERITY_INFO, "C"),
		finding(lockdv1.Finding_SEVERITY_ERROR, "D"), finding(lockdv1.Finding_SEVERITY_WARNING, "E"),
	}})
	var order string
	for _, f := range v.Findings {
		order += f.Check
	}
	if order != "DBECA" || v.Worst != "error" || code != exitWrong {
		t.Errorf("got %s, %s, code %d", order, v.Worst, code)
	}
	for worst, want := range map[lockdv1.Finding_Severity]int{
		lockdv1.Finding_SEVERITY_OK: 0, lockdv1.Finding_SEVERITY_INFO: 0, lockdv1.Finding_SEVERITY_WARNING: 2,
		lockdv1.Finding_SEVERITY_ERROR:     3,
		lockdv1.Finding_SEVERITY_ERROR + 1: 3, // of a newer server
	} {
		r := &lockdv1.ExamineResponse{Findings: []*lockdv1.Finding{finding(worst, "A")}}
		if _, got := viewDoctor(r); got != want {
			t.Errorf("%v: got code %d, want %d", worst, got, want)
		}
	}
	if _, got := viewDoctor(&lockdv1.ExamineResponse{}); got != 0 {
		t.Errorf("nothing found: got code %d", got)
	}
}
