package conformance

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// want is what a field of an answer or of an event should be: one of some values.
type want struct {
	line   int
	field  string
	values []any // texts, numbers, bools, comparisons; or of lists, if the field is one
}

// comparison compares with a number, or with the fence of a hold.
type comparison struct {
	op     string // = < > <= >=
	number int64
	hold   string // "" if there is a number
}

// comparisons are the ways to compare, the longer ones first.
var comparisons = []string{"<=", ">=", "<", ">", "="}

// newWant reads a value of expect. It says which holds are compared with.
func newWant(field string, n *yaml.Node) (w want, holds []string, err error) {
	w = want{line: n.Line, field: field}
	nodes := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		nodes = n.Content
	}
	for _, n := range nodes {
		var v any
		if err := n.Decode(&v); err != nil || n.Kind != yaml.ScalarNode {
			return w, nil, fmt.Errorf("%s: a text, a number, true, false, or a list of these was expected", field)
		}
		switch text := v.(type) {
		case int:
			v = int64(text)
		case string:
			c, is, err := newComparison(text)
			if err != nil {
				return w, nil, fmt.Errorf("%s: %w", field, err)
			}
			if is {
				v = c
			}
			if c.hold != "" {
				holds = append(holds, c.hold)
			}
		}
		w.values = append(w.values, v)
	}
	return w, holds, nil
}

// newComparison reads texts such as ">0", "<= 5s" and "=h1".
func newComparison(text string) (c comparison, is bool, err error) {
	for _, op := range comparisons {
		rest, found := strings.CutPrefix(text, op)
		if !found {
			continue
		}
		rest = strings.TrimSpace(rest)
		c = comparison{op: op}
		if n, err := strconv.ParseInt(rest, 10, 64); err == nil {
			c.number = n
		} else if n, err := readTime(rest); err == nil {
			c.number = n
		} else if rest != "" {
			c.hold = rest
		} else {
			return c, false, fmt.Errorf("%q compares with nothing", text)
		}
		return c, true, nil
	}
	return c, false, nil
}

// check says what is wrong with a value, nil if nothing is.
func (w want) check(got any, fences map[string]int64) error {
	if list, ok := got.([]any); ok {
		if !slices.EqualFunc(list, w.values, func(g, v any) bool { return matches(g, v, fences) }) {
			return fmt.Errorf("%s is %v, want %v", w.field, got, w.values)
		}
		return nil
	}
	for _, v := range w.values {
		if matches(got, v, fences) {
			return nil
		}
	}
	return fmt.Errorf("%s is %s, want %s", w.field, told(got, nil), told(w.values, fences))
}

// matches says whether a value that was told is as it should be.
func matches(got, v any, fences map[string]int64) bool {
	number, isNumber := numberOf(got)
	switch v := v.(type) {
	case comparison:
		return isNumber && v.holds(number, fences)
	case int64:
		return isNumber && number == v
	default:
		return got == v
	}
}

// numberOf is the number that JSON told.
func numberOf(v any) (int64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

// holds says whether a comparison is true of a number.
func (c comparison) holds(number int64, fences map[string]int64) bool {
	other := c.number
	if c.hold != "" {
		var known bool
		if other, known = fences[c.hold]; !known {
			return false
		}
	}
	switch order := cmp.Compare(number, other); c.op {
	case "<":
		return order < 0
	case ">":
		return order > 0
	case "<=":
		return order <= 0
	case ">=":
		return order >= 0
	default:
		return order == 0
	}
}

// told is a value for people.
func told(v any, fences map[string]int64) string {
	switch v := v.(type) {
	case nil:
		return "missing"
	case comparison:
		if c := v; c.hold != "" {
			return fmt.Sprintf("%s%s (%d)", c.op, c.hold, fences[c.hold])
		}
		return fmt.Sprint(v.op, v.number)
	case []any:
		var all []string
		for _, one := range v {
			all = append(all, told(one, fences))
		}
		return strings.Join(all, " or ")
	default:
		return fmt.Sprint(v)
	}
}
