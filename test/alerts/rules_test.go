package alerts

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/lockd-io/lockd/test/harness"
)

// faster is how many times faster Prometheus lives in these tests. All its durations are divided by it: how often it
// scrapes and evaluates, how long a condition must last, the ranges in expressions, and the thresholds that are lengths
// of time. What lockd does keeps its own time. A shorter duration can only make an alert that should be silent
// fire.
const faster = 20

const (
	rulesFile = "../../deploy/prometheus/lockd.rules.yaml"
	interval  = 5 * time.Second / faster // 5 s is what docs and compose have
)

// thresholds are those that are lengths of time. The keys here are in a file, which is read each second.
var thresholds = map[string]string{
	"lockd_oldest_waiter_seconds > 600": fmt.Sprintf("lockd_oldest_waiter_seconds > %d", 600/faster),
	"lockd_jwks_age_seconds > 3600":     "lockd_jwks_age_seconds > 20",
}

var (
	forLine   = regexp.MustCompile(`(?m)^( +for: )(\w+)$`)
	rangeExpr = regexp.MustCompile(`(\[)(\w+)\]`)
)

// rules are the rules as they are in a file.
type rules struct {
	Groups []struct {
		Rules []struct {
			Alert, Expr, For string
			Labels           map[string]string
		}
	}
}

func readRules(t testing.TB) string {
	t.Helper()
	text, err := os.ReadFile(rulesFile)
	harness.Must(t, err)
	return string(text)
}

func parseRules(t testing.TB, text string) (r rules) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(text), &r); err != nil || len(r.Groups) == 0 {
		t.Fatalf("got %+v, %v", r, err)
	}
	return r
}

// speedUp divides the durations of rules.
func speedUp(t testing.TB, text string) string {
	t.Helper()
	shorter := func(d string) string {
		long, err := time.ParseDuration(d)
		harness.Must(t, err)
		return fmt.Sprintf("%dms", (long / faster).Milliseconds())
	}
	text = forLine.ReplaceAllStringFunc(text, func(s string) string {
		m := forLine.FindStringSubmatch(s)
		return m[1] + shorter(m[2])
	})
	text = rangeExpr.ReplaceAllStringFunc(text, func(s string) string {
		return "[" + shorter(rangeExpr.FindStringSubmatch(s)[2]) + "]"
	})
	for from, to := range thresholds {
		if strings.Count(text, from) != 1 {
			t.Fatalf("the rules do not have %q once", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	return text
}

func TestOnlyDurationsOfTheRulesAreChanged(t *testing.T) {
	text := readRules(t)
	as, bs := parseRules(t, text), parseRules(t, speedUp(t, text))
	numbers := regexp.MustCompile(`\[\w+\]|> (600|30|3600|20)$`)
	changed := 0
	for i, a := range as.Groups[0].Rules {
		b := bs.Groups[0].Rules[i]
		if a.Alert != b.Alert || numbers.ReplaceAllString(a.Expr, "") != numbers.ReplaceAllString(b.Expr, "") ||
			fmt.Sprint(a.Labels) != fmt.Sprint(b.Labels) {
			t.Errorf("got %+v, was %+v", b, a)
		}
		if a.For == "" && b.For == "" {
			continue
		}
		long, err := time.ParseDuration(a.For)
		short, err2 := time.ParseDuration(b.For)
		if err != nil || err2 != nil || short*faster != long {
			t.Errorf("%s: for %q is now %q", a.Alert, a.For, b.For)
		}
		changed++
	}
	if changed == 0 || len(as.Groups) != 1 || len(as.Groups[0].Rules) != len(bs.Groups[0].Rules) {
		t.Errorf("%d changed, from %+v to %+v", changed, as, bs)
	}
}
