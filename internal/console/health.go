package console

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

type foundHealth struct {
	asking
	Status   *lockdv1.GetStatusResponse
	Memories []*lockdv1.ReplicaMemory
	Findings []*lockdv1.Finding // the worst first; without those that are as they should be
	Good     []*lockdv1.Finding
	Alerts   []conditionNow // none if the numbers of this replica are hidden
	Pending  bool           // the examination is not over
	Failed   string         // why there is none
}

// lookHealth finds the state of this replica, which others there are, and what an examination finds.
func lookHealth(ctx context.Context, c *Console, a *asker, _ url.Values) (any, error) {
	status, err := a.inspect.GetStatus(ctx, &lockdv1.GetStatusRequest{})
	if err != nil {
		return nil, err
	}
	f := &foundHealth{Status: status}
	if !status.GetHidden() {
		f.Alerts = c.conditionsNow(time.Now())
	}
	others, err := a.inspect.ListBusiest(ctx, &lockdv1.ListBusiestRequest{PageSize: 1})
	if err != nil {
		f.Unasked = explained(err)
	} else {
		f.add(others, others.GetStoreError())
		f.Memories = others.GetMemories()
	}
	found, err := c.examine(a)
	switch {
	case err != nil:
		f.Failed = explained(err)
	case found == nil:
		f.Pending = true
	}
	for _, i := range found.GetFindings() {
		if i.GetSeverity() <= lockdv1.Finding_SEVERITY_OK {
			f.Good = append(f.Good, i)
		} else {
			f.Findings = append(f.Findings, i)
		}
	}
	slices.SortStableFunc(f.Findings, func(a, b *lockdv1.Finding) int {
		return cmp.Compare(b.GetSeverity(), a.GetSeverity())
	})
	return f, nil
}

// How long an examination counts, may take, and is waited for.
const (
	examineCounts = 30 * time.Second
	examineTime   = 20 * time.Second
	examineWait   = 700 * time.Millisecond
)

// examine examines the replica, or returns what was found lately; nil while an examination goes on.
func (c *Console) examine(a *asker) (*lockdv1.ExamineResponse, error) {
	var found any
	var err error
	over := make(chan struct{})
	started := c.goes(func() {
		defer close(over)
		ctx, cancel := context.WithTimeout(c.closing, examineTime)
		defer cancel()
		found, err = c.looks.get(ctx, a.client+"\x00examine", examineCounts, func() (any, error) {
			return c.examineNow(ctx, a)
		})
	})
	if !started {
		return nil, status.Error(codes.Unavailable, "this replica is stopping")
	}
	select {
	case <-over:
		examined, _ := found.(*lockdv1.ExamineResponse)
		return examined, err
	case <-time.After(examineWait):
		return nil, nil
	}
}

func (c *Console) examineNow(ctx context.Context, a *asker) (any, error) {
	if a.client != "" || c.cfg.Examine == nil {
		// To look at a page must not try what one may not do: each look would write a line into the audit.
		may, err := a.inspect.Can(ctx, &lockdv1.CanRequest{Verb: "examine"})
		if err == nil && !may.GetAllowed() {
			err = status.Error(codes.PermissionDenied, may.GetFailure().GetMessage())
		}
		if err != nil {
			return nil, err
		}
		return a.admin.Examine(ctx, &lockdv1.ExamineRequest{})
	}
	all := &lockdv1.ExamineResponse{}
	for _, f := range c.cfg.Examine(ctx) {
		all.Findings = append(all.Findings, &lockdv1.Finding{
			Severity: lockdv1.Finding_Severity(f.Severity), Check: f.Check, Node: f.Node, Detail: f.Detail, Remedy: f.Remedy,
		})
	}
	return all, nil
}

// runbooks are the places of the documentation for what an examination finds.
var runbooks = map[string]string{
	"READY": "runbooks.md#lockdstoredown", "REACHABLE": "runbooks.md#lockdstoredown",
	"RENEWALS": "runbooks.md#lockdrenewalslate", "MAXMEMORY_POLICY": "runbooks.md#lockdredisevicts",
	"CONFIG_AGREES": "runbooks.md#lockdconfigdiffers", "QUORUM": "runbooks.md#lockdnomajorityvotes",
	"QUARANTINE": "topologies.md#redlock", "CERTIFICATE": "runbooks.md#lockdcertificateexpires",
	"CLIENTS_FILE": "runbooks.md#lockdclientsfileinvalid", "SIGNING_KEYS": "runbooks.md#lockdsigningkeysold",
	"REPLICA_NAME": "operations.md#replicas-of-one-redis", "PREFIX_OVERLAPS": "operations.md#replicas-of-one-redis",
}

// runbook is where to read about a finding.
func runbook(check string) string { return docs(cmp.Or(runbooks[check], "operations.md#examination")) }
