package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// whoamiView is what whoami prints.
type whoamiView struct {
	Client     string      `json:"client"` // empty if lockd has no clients file
	Credential string      `json:"credential"`
	ExpiresIn  *millis     `json:"expires_in_ms"` // null if it never does
	Lock       []string    `json:"lock"`
	Look       []string    `json:"look"`
	Deny       []string    `json:"deny"`
	Admin      []string    `json:"admin"`
	Quotas     []quotaView `json:"quotas"`
	Replica    string      `json:"replica"`
	Peer       string      `json:"peer"`
}

// quotaView is one quota, and how much of it is used on the replica that answers.
type quotaView struct {
	Subject string `json:"subject"`
	Limit   uint32 `json:"limit"`
	Used    uint32 `json:"used"`
}

func newWhoAmI(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "whoami",
		Short: "Show who you are for the server, and what you may do",
		Long: `whoami shows which client of its clients file the server takes lockctl for, by which certificate or token,
what that client may do, and how much of its quotas is used on the replica that answers.`,
		Args: exactly(0),
		RunE: o.asks(func(ctx context.Context, s *services, _ []string) (shown, error) {
			resp, err := ask(ctx, s, s.reads.WhoAmI, &lockdv1.WhoAmIRequest{})
			v := view[whoamiView](resp)
			return shown{json: v, text: v.text}, err
		}),
	}
}

func (v whoamiView) text(p *screen) {
	at := [][]any{{"replica", v.Replica}, {"peer", v.Peer}}
	if v.Client == "" {
		p.table(at)
		p.line("")
		p.line("the server has no clients file: everybody may do everything")
		return
	}
	var expires any = "never"
	if v.ExpiresIn != nil {
		expires = "in " + v.ExpiresIn.String()
	}
	rows := [][]any{{"client", v.Client}, {"credential", v.Credential}, {"expires", expires}}
	for _, right := range []struct {
		title string
		all   []string
	}{{"lock", v.Lock}, {"look", v.Look}, {"deny", v.Deny}, {"admin", v.Admin}} {
		rows = append(rows, []any{right.title, strings.Join(right.all, ", ")})
	}
	p.table(append(rows, at...))
	if len(v.Quotas) > 0 {
		p.line("")
		list(p, v.Quotas, func(q quotaView) []any { return []any{q.Subject, q.Used, q.Limit} }, "QUOTA", "USED", "LIMIT")
	}
}

// canView is what can prints.
type canView struct {
	Verb    string `json:"verb"`
	Name    string `json:"name"`
	Allowed bool   `json:"allowed"`
	Client  string `json:"client"` // these are empty if it is allowed
	Right   string `json:"right"`  // the one that is missing
	Error   string `json:"error"`
}

// verbs are what can asks for, and whether for a name.
var verbs = map[string]struct{ takes, needs bool }{
	"lock": {true, true}, "look": {true, true}, "force": {true, false}, "limit": {true, false}, "drain": {}, "examine": {},
}

func newCan(o *options) *cobra.Command {
	return &cobra.Command{
		Use:   "can VERB [NAME]",
		Short: "Show whether you may do something, and else which right is missing",
		Long: `can shows whether the server would let you lock or look at a NAME, force or limit one, or drain or examine a
replica: yes, or no with the right that is missing, and the exit code 77. Whether the name is free does not matter.`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				if v, known := verbs[args[0]]; known && (len(args) == 1 && !v.needs || len(args) == 2 && v.takes) {
					return nil
				}
			}
			return usagef("usage: lockctl can lock|look NAME, can force|limit [NAME], or can drain|examine")
		},
		RunE: o.asks(func(ctx context.Context, s *services, args []string) (shown, error) {
			v := canView{Verb: args[0], Name: strings.Join(args[1:], "")}
			resp, err := ask(ctx, s, s.reads.Can, &lockdv1.CanRequest{Verb: v.Verb, Name: v.Name})
			code := exitDenied
			if v.Allowed = resp.GetAllowed(); v.Allowed {
				code = 0
			}
			missing := resp.GetFailure()
			v.Client, v.Right, v.Error = missing.GetMetadata()["client"], missing.GetMetadata()["right"], missing.GetMessage()
			return shown{json: v, text: v.text, code: code}, err
		}),
	}
}

func (v canView) text(p *screen) {
	text := "yes"
	if !v.Allowed {
		text = fmt.Sprintf("no: %s", v.Error)
	}
	p.line("%s", text)
}
