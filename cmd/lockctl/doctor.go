package main

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// examineTime is how long the server may take to examine its store, besides answerTimeout.
const examineTime = 10 * time.Second

// doctorView is what doctor prints.
type doctorView struct {
	Replica  string         `json:"replica"`
	Version  string         `json:"version"`
	Uptime   int64          `json:"uptime_ms"`
	Store    string         `json:"store"`
	Worst    string         `json:"worst"` // ok, info, warning or error
	Findings []*findingView `json:"findings"`
}

// findingView is one finding.
type findingView struct {
	Severity string `json:"severity"` // ok, info, warning, error; unknown to this lockctl: empty
	Check    string `json:"check"`
	Node     string `json:"node"`
	Detail   string `json:"detail"`
	Remedy   string `json:"remedy"` // empty if nothing is to be done

	rank lockdv1.Finding_Severity
}

var severities = map[lockdv1.Finding_Severity]string{
	lockdv1.Finding_SEVERITY_OK: "ok", lockdv1.Finding_SEVERITY_INFO: "info",
	lockdv1.Finding_SEVERITY_WARNING: "warning", lockdv1.Finding_SEVERITY_ERROR: "error",
}

func newDoctor(o *options) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Examine a replica and the servers where it keeps leases, and say what to change",
		Long: `doctor has the replica at --admin-addr look at itself and at each server where it keeps leases: whether
they are as lockd needs them. It changes nothing. The worst findings come first, each with what to do about it.

The exit code is 0 if all is well, 2 if the worst finding is a warning, 3 if it is an error.`,
		Args: exactly(0),
		RunE: o.operates("doctor", func(ctx context.Context, s *services, _ []string) (shown, error) {
			resp, err := retry(ctx, s, examineTime, func(ctx context.Context) (*lockdv1.ExamineResponse, error) {
				return s.admin.Examine(ctx, &lockdv1.ExamineRequest{})
			})
			v := viewDoctor(resp)
			return shown{json: v, text: func(p *screen) { v.text(p, all) }, code: v.code()}, err
		}),
	}
	cmd.Flags().BoolVar(&all, "all", false, "also show what is as it should be")
	return cmd
}

// viewDoctor puts the worst findings first, and else leaves them in their order.
func viewDoctor(r *lockdv1.ExamineResponse) doctorView {
	v := doctorView{
		Replica: r.GetReplica(), Version: r.GetVersion(), Uptime: r.GetUptime().AsDuration().Milliseconds(),
		Store: r.GetStore(),
		Worst: severities[lockdv1.Finding_SEVERITY_OK], Findings: []*findingView{}, // printed as [] if there is none
	}
	for _, f := range r.GetFindings() {
		v.Findings = append(v.Findings, &findingView{
			Severity: severities[f.GetSeverity()], Check: f.GetCheck(), Node: f.GetNode(), Detail: f.GetDetail(),
			Remedy: f.GetRemedy(),
			rank:   f.GetSeverity(),
		})
	}
	slices.SortStableFunc(v.Findings, func(a, b *findingView) int { return cmp.Compare(b.rank, a.rank) })
	if len(v.Findings) > 0 {
		v.Worst = cmp.Or(v.Findings[0].Severity, v.Worst)
	}
	return v
}

// code is the exit code that tells the worst finding.
func (v doctorView) code() int {
	if len(v.Findings) == 0 {
		return 0
	}
	switch worst := v.Findings[0].rank; {
	case worst >= lockdv1.Finding_SEVERITY_ERROR:
		return exitWrong
	case worst == lockdv1.Finding_SEVERITY_WARNING:
		return exitDoubtful
	}
	return 0
}

func (v doctorView) text(p *screen, all bool) {
	p.table([][]string{
		{"replica", dash(v.Replica)},
		{"version", dash(v.Version)},
		{"uptime", milliseconds(&v.Uptime)},
		{"store", dash(v.Store)},
	})
	rows, fine := [][]string{{"FOUND", "CHECK", "NODE", "DETAIL"}}, 0
	for _, f := range v.Findings {
		if f.rank == lockdv1.Finding_SEVERITY_OK {
			fine++
			if !all {
				continue
			}
		}
		rows = append(rows, []string{dash(f.Severity), f.Check, dash(f.Node), f.Detail})
		if f.Remedy != "" {
			rows = append(rows, []string{"", "", "", "-> " + f.Remedy})
		}
	}
	if len(rows) > 1 {
		p.line("")
		p.table(rows)
	}
	p.line("")
	p.line("%s passed", counted(fine, "check"))
}
