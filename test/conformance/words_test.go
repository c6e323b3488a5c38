package conformance

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// verb is something that a step may do.
type verb struct {
	op      string // what a driver is told, if that is another word
	form    string // the words after the verb: literals, and FIELD:SORT
	options string // what may follow: pairs of FIELD:SORT
	answer  string // the fields of the answer
	asks    bool   // it changes nothing, so that it may be repeated
}

const lockOptions = "kind:kind lease:time holder:text permits:number limit:number annotation:text actor:text max_hold:time"

// verbs are those of each subject.
var verbs = map[string]map[string]verb{
	"client": {
		"lock":         {form: "name:name as hold:new", options: "wait:time " + lockOptions, answer: "fence"},
		"try":          {op: "lock", form: "name:name as hold:new", options: lockOptions, answer: "fence"},
		"lock_all":     {form: "items:items as holds:news", options: "wait:time lease:time", answer: "fences"},
		"cancel":       {form: "target:hold"},
		"unlock":       {form: "hold:hold"},
		"extend":       {form: "hold:hold lease:time"},
		"shorten":      {form: "hold:hold lease:time"},
		"make_fixed":   {form: "hold:hold lease:time"},
		"make_auto":    {form: "hold:hold"},
		"keep_permits": {form: "hold:hold permits:number", answer: "left"},
		"state":        {form: "hold:hold", answer: "held fence remaining reason", asks: true},
		"look":         {form: "name:name", answer: "held fence kind waiting", asks: true},
		"holds":        {form: "prefix:name", answer: "names", asks: true},
		"set_limit":    {form: "name:name limit:number", answer: "previous"},
		"watch":        {form: "name:name as watch:new"},
		"unwatch":      {form: "watch:hold"},
		"campaign": {
			form: "election:name as term:new by candidate:text", options: "wait:time annotation:text", answer: "fence",
		},
		"resign":   {form: "term:hold"},
		"observe":  {form: "election:name as observe:new"},
		"with_ttl": {form: "session_ttl:time as other:derived"},
		"close":    {},
	},
	"proxy": {
		"break":   {form: "client:client", options: "at:number"},
		"silence": {form: "client:client", options: "at:number"},
		"mend":    {form: "client:client", options: "at:number"},
	},
	"replica": {
		"kill": {form: "at:number"}, "stop": {form: "at:number"}, "start": {form: "at:number"},
		"freeze": {form: "at:number"}, "thaw": {form: "at:number"},
	},
	"driver": {
		"kill": {form: "client:client"}, "end": {form: "client:client"},
		"freeze": {form: "client:client"}, "thaw": {form: "client:client"},
	},
	"redis": {"freeze": {}, "thaw": {}},
	"operator": {
		"force_unlock": {form: "name:name by by:text because why:text"},
		"throw_out":    {form: "token:text"},
	},
}

// events are what drivers tell by themselves: first the fields that say which one is meant, then the others.
var events = map[string][2]string{
	"queued":   {"hold", "ahead"},
	"lost":     {"hold", "reason by why max_hold"},
	"status":   {"client status", ""},
	"unlocked": {"watch", "name cause fence merged gap"},
	"leader":   {"observe", "name annotation fence"},
}

// details are what errors have besides.
const details = "name held_by client annotation address held_for retry_after limit right reason"

// clientOptions are what a scenario may say of a client.
const clientOptions = "session_ttl:time answer_timeout:time actor:text fail_on_deadlock:flag " +
	"release_on_disconnect:flag token:text name:text at:number"

// word is a word of a step that has a value.
type word struct {
	field string
	sort  string
	value any // a text, a number (times are ms), a bool, []string, or []item
}

// item is one of the locks that are taken together.
type item struct{ name, kind string }

// isClient says whether this is the name of a client: they are single letters.
func isClient(name string) bool { return len(name) == 1 && name >= "a" && name <= "z" }

// split splits a text into words. Quotes keep spaces in a word.
func split(text string) (all []string, err error) {
	for rest := strings.TrimSpace(text); rest != ""; rest = strings.TrimSpace(rest) {
		if rest[0] != '"' {
			word, after, _ := strings.Cut(rest, " ")
			all, rest = append(all, word), after
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return nil, fmt.Errorf("a quote is not closed in %s", rest)
		}
		word, err := strconv.Unquote(quoted)
		if err != nil {
			return nil, err
		}
		all, rest = append(all, word), rest[len(quoted):]
	}
	return all, nil
}

// read reads what comes after a verb.
func (v verb) read(words []string) (all []word, err error) {
	for form := range strings.FieldsSeq(v.form) {
		field, sort, hasValue := strings.Cut(form, ":")
		if len(words) == 0 || !hasValue && words[0] != field {
			return nil, fmt.Errorf("the words after the verb should be: %s", v.usage())
		}
		if hasValue {
			w, err := newWord(field, sort, words[0])
			if err != nil {
				return nil, err
			}
			all = append(all, w)
		}
		words = words[1:]
	}
	for ; len(words) > 0; words = words[2:] {
		sort := sortOf(v.options, words[0])
		if sort == "" || len(words) == 1 {
			return nil, fmt.Errorf("%q is no option with a value: %s", words[0], v.usage())
		}
		w, err := newWord(words[0], sort, words[1])
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// usage is the form, for who made a mistake.
func (v verb) usage() string {
	var b strings.Builder
	for form := range strings.FieldsSeq(v.form) {
		field, _, hasValue := strings.Cut(form, ":")
		if hasValue {
			field = strings.ToUpper(field)
		}
		b.WriteString(field + " ")
	}
	for option := range strings.FieldsSeq(v.options) {
		field, _, _ := strings.Cut(option, ":")
		fmt.Fprintf(&b, "[%s %s] ", field, strings.ToUpper(field))
	}
	return strings.TrimSpace(b.String())
}

// sortOf is the sort of a field in a list of FIELD:SORT, "" if it is not there.
func sortOf(list, field string) string {
	for one := range strings.FieldsSeq(list) {
		if name, sort, _ := strings.Cut(one, ":"); name == field {
			return sort
		}
	}
	return ""
}

// newWord reads a value of a sort.
func newWord(field, sort, text string) (word, error) {
	w := word{field: field, sort: sort, value: text}
	var err error
	switch sort {
	case "time":
		w.value, err = readTime(text)
	case "number":
		w.value, err = strconv.ParseInt(text, 10, 64)
	case "flag":
		w.value, err = strconv.ParseBool(text)
	case "news":
		w.value = strings.Split(text, ",")
	case "items":
		var items []item
		for one := range strings.SplitSeq(text, ",") {
			name, kind, _ := strings.Cut(one, ":")
			items = append(items, item{name, kind})
		}
		w.value = items
	case "client", "derived":
		if !isClient(text) {
			err = fmt.Errorf("%q is no client: they are single letters", text)
		}
	}
	if err != nil {
		return word{}, fmt.Errorf("%s: %w", field, err)
	}
	return w, nil
}

// readTime reads a time such as 1m30s, in ms.
func readTime(text string) (int64, error) {
	d, err := time.ParseDuration(text)
	return d.Milliseconds(), err
}
