package console

import (
	"fmt"
	"html/template"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"google.golang.org/protobuf/types/known/durationpb"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
)

// texts are what templates call.
var texts = template.FuncMap{
	"readable": readable, "cut": cut, "up": up, "down": down, "took": took, "kind": kindOf, "link": link,
	"labels": labels, "docs": docs, "what": whatOf, "origin": originOf, "plural": plural, "short": short,
	"runbook": runbook, "lower": strings.ToLower, "severity": severity, "fit": fit, "at": at, "names": someNames,
	"of":    func(has uint32, limit int) any { return struct{ Has, Limit int }{int(has), limit} },
	"place": func(before uint32) uint32 { return before + 1 },
	"more":  func(holders uint32) uint32 { return holders - 1 },
	"last":  func(chain []*edge) *edge { return chain[len(chain)-1] },
	"kinds": func() []string { return []string{"exclusive", "fair", "read", "write", "semaphore"} },
}

// readable shows characters that are not seen, or reorder a text, as escapes of Go, such as \u202e.
func readable(text string) string {
	var out strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRuneToASCII(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// cut is a text that is not longer than most letters. All of it is in its title.
func cut(most int, text string) template.HTML {
	whole := readable(text)
	seen := []rune(whole)
	if len(seen) <= most {
		return template.HTML("<bdi>" + template.HTMLEscapeString(whole) + "</bdi>") //nolint:gosec // it is escaped
	}
	return template.HTML(`<bdi title="` + template.HTMLEscapeString(whole) + `">` + //nolint:gosec // it is escaped
		template.HTMLEscapeString(string(seen[:most-1])) + "…</bdi>")
}

// fit is cut for a picture, where all of it stands elsewhere.
func fit(most int, text string) string {
	if seen := []rune(readable(text)); len(seen) > most {
		return string(seen[:most-1]) + "…"
	}
	return readable(text)
}

// up is a time that passes, such as an age. The script goes on with it.
func up(d *durationpb.Duration) template.HTML { return running("up", d) }

// down is a time that is left.
func down(d *durationpb.Duration) template.HTML { return running("down", d) }

func running(way string, d *durationpb.Duration) template.HTML {
	if d == nil {
		return ""
	}
	t := max(d.AsDuration(), 0)
	return template.HTML(fmt.Sprintf( //nolint:gosec // numbers
		`<time data-%s="%d">%s</time>`, way, t.Milliseconds(), inWords(t)))
}

// at is when something began, to the minute: people read a page now and tell others later.
func at(age *durationpb.Duration) string {
	if age == nil {
		return ""
	}
	began := time.Now().UTC().Add(-age.AsDuration())
	if age.AsDuration() > 12*time.Hour {
		return began.Format("2006-01-02 15:04 UTC")
	}
	return began.Format("15:04 UTC")
}

// names are some of the names of locks, to be linked to.
type names struct {
	Base  string
	First []string
	More  int
}

func someNames(base string, all []string) names {
	first := all[:min(len(all), 3)]
	return names{base, first, len(all) - len(first)}
}

// took is a time that is over.
func took(d *durationpb.Duration) string {
	if d == nil {
		return ""
	}
	if d.AsDuration() < time.Second {
		return fmt.Sprintf("%d ms", d.AsDuration().Milliseconds())
	}
	return inWords(d.AsDuration())
}

// inWords is a duration for people. The script has the same.
func inWords(d time.Duration) string {
	switch s := int64(d / time.Second); {
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %d min", s/3600, s%3600/60)
	default:
		return fmt.Sprintf("%d d %d h", s/86400, s%86400/3600)
	}
}

func kindOf(k lockdv1.LockKind) string {
	if k == lockdv1.LockKind_LOCK_KIND_UNSPECIFIED {
		return ""
	}
	return strings.ToLower(strings.TrimPrefix(k.String(), "LOCK_KIND_"))
}

func whatOf(e *lockdv1.EventInfo) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(e.GetWhat().String(), "WHAT_")), "_", " ")
}

func originOf(h *lockdv1.HolderInfo) string {
	switch h.GetOrigin() {
	case lockdv1.HolderInfo_ORIGIN_UNARY:
		return "a unary lease"
	case lockdv1.HolderInfo_ORIGIN_REDISSON:
		return "Redisson"
	case lockdv1.HolderInfo_ORIGIN_OTHER:
		return "another program"
	case lockdv1.HolderInfo_ORIGIN_SESSION:
		return "a session"
	case lockdv1.HolderInfo_ORIGIN_UNSPECIFIED: // as below
	}
	return "not known"
}

// short is the beginning of an id.
func short(id string) string { return id[:min(len(id), 8)] }

func labels(all map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(all)) {
		out = append(out, k+"="+all[k])
	}
	return strings.Join(out, " ")
}

// plural is a number of things.
func plural(n any, one string) string {
	if text := fmt.Sprint(n); text != "1" {
		return text + " " + one + "s"
	}
	return "1 " + one
}

// link is the address of a page, with what it is asked: names and values.
func link(base, path string, pairs ...string) string {
	q := url.Values{}
	for pair := range slices.Chunk(pairs, 2) {
		if len(pair) == 2 && pair[1] != "" {
			q.Set(pair[0], pair[1])
		}
	}
	if len(q) == 0 {
		return base + path
	}
	return base + path + "?" + q.Encode()
}

// docs is the address of a page of the documentation.
func docs(page string) string { return "https://github.com/lockd-io/lockd/blob/main/docs/" + page }

func severity(f *lockdv1.Finding) string {
	return strings.ToLower(strings.TrimPrefix(f.GetSeverity().String(), "SEVERITY_"))
}
