package conformance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// scenario is one promise, and the steps that show it.
type scenario struct {
	at       string // where it stands
	file     string
	title    string
	replicas int                 // of its own; 0 = those that all scenarios share
	tokens   map[string][]string // the locks that a client with this token may use; nil = all may do everything
	clients  []string            // in the order of their names
	derived  map[string]string   // clients that with_ttl makes: of which one
	options  map[string][]word   // of clients
	alone    map[string]bool     // the clients that have a process of their own
	redis    bool                // it has a Redis of its own
	faults   bool                // something other than clients acts
	moves    bool                // clients may have to go to another replica
	steps    []step
}

// step is something that is done, or expected, or both.
type step struct {
	line    int
	subject string // a client, or proxy, replica, driver, redis, operator; "" if nothing is done
	verb    string
	spec    verb
	words   []word
	key     string // what a later step calls its answer
	expect  *expectation
}

// value is that of a word of the step, nil if there is none.
func (s step) value(field string) any {
	for _, w := range s.words {
		if w.field == field {
			return w.value
		}
	}
	return nil
}

// text is a value that is a text.
func (s step) text(field string) string { text, _ := s.value(field).(string); return text }

// expectation is what is told after a step.
type expectation struct {
	later  bool              // nothing is looked at yet
	until  bool              // the step is repeated until it is so
	event  string            // not an answer
	about  map[string]string // which event
	answer string            // to an earlier command; "" = to this one
	within int64             // ms after the command; 0 = no bound of its own
	fails  bool
	wants  []want
}

// reader reads a file, and collects the mistakes in it.
type reader struct {
	file     string
	mistakes []error
	sc       *scenario
	commands map[string]verb // of the scenario so far, by key
}

// readScenarios reads a file. The error tells all mistakes, each with its line.
func readScenarios(file string, text []byte) (all []*scenario, err error) {
	r := &reader{file: file}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if len(doc.Content) == 0 || doc.Content[0].Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("%s: a list of scenarios was expected", file)
	}
	for _, n := range doc.Content[0].Content {
		r.scenario(n)
		all = append(all, r.sc)
	}
	return all, errors.Join(r.mistakes...)
}

// bad notes a mistake.
func (r *reader) bad(n *yaml.Node, format string, args ...any) {
	r.mistakes = append(r.mistakes, fmt.Errorf("%s:%d: %s", r.file, n.Line, fmt.Sprintf(format, args...)))
}

// pairs calls a function with each key and value of a mapping.
func (r *reader) pairs(n *yaml.Node, what string, do func(key, value *yaml.Node)) {
	if n.Kind != yaml.MappingNode {
		r.bad(n, "%s: KEY: VALUE was expected", what)
		return
	}
	for i := 0; i < len(n.Content); i += 2 {
		do(n.Content[i], n.Content[i+1])
	}
}

func (r *reader) scenario(n *yaml.Node) {
	r.sc = &scenario{
		file: r.file, at: fmt.Sprintf("%s:%d", r.file, n.Line),
		options: make(map[string][]word), alone: make(map[string]bool), derived: make(map[string]string),
	}
	r.commands = make(map[string]verb)
	r.pairs(n, "a scenario", func(key, value *yaml.Node) {
		var err error
		switch key.Value {
		case "scenario":
			err = value.Decode(&r.sc.title)
		case "replicas":
			err = value.Decode(&r.sc.replicas)
		case "tokens":
			err = value.Decode(&r.sc.tokens)
		case "clients":
			r.pairs(value, "clients", r.client)
		case "steps":
			for _, n := range value.Content {
				r.step(n)
			}
		default:
			r.bad(key, "a scenario has no %q: scenario, replicas, tokens, clients, steps", key.Value)
		}
		if err != nil {
			r.bad(value, "%s: %v", key.Value, err)
		}
	})
	if r.sc.title == "" || len(r.sc.steps) == 0 {
		r.bad(n, "a scenario needs a title and steps")
	}
	if r.sc.tokens != nil || r.sc.redis {
		r.sc.replicas = max(r.sc.replicas, 1)
	}
	slices.Sort(r.sc.clients)
	for _, s := range r.sc.steps {
		if s.subject == "replica" && r.sc.replicas == 0 {
			r.bad(n, "what happens to replicas needs some of its own: replicas: 2")
			break
		}
	}
}

// client reads the options of a client.
func (r *reader) client(name, options *yaml.Node) {
	r.useClient(name)
	r.pairs(options, "the options of a client", func(key, value *yaml.Node) {
		sort := sortOf(clientOptions, key.Value)
		if sort == "" {
			r.bad(key, "a client has no option %q: %s", key.Value, clientOptions)
			return
		}
		w, err := newWord(key.Value, sort, value.Value)
		if err != nil {
			r.bad(value, "%v", err)
		}
		r.sc.options[name.Value] = append(r.sc.options[name.Value], w)
	})
}

func (r *reader) useClient(n *yaml.Node) {
	if !isClient(n.Value) {
		r.bad(n, "%q is no client: they are single letters", n.Value)
	} else if r.sc.derived[n.Value] == "" && !slices.Contains(r.sc.clients, n.Value) {
		r.sc.clients = append(r.sc.clients, n.Value)
	}
}

func (r *reader) step(n *yaml.Node) {
	s := step{line: n.Line}
	until := false
	var expect *yaml.Node
	r.pairs(n, "a step", func(key, value *yaml.Node) {
		switch key.Value {
		case "expect", "until":
			expect, until = value, key.Value == "until"
		default:
			if s.subject != "" {
				r.bad(key, "a step does one thing")
				return
			}
			s.subject = key.Value
			r.action(&s, key, value)
		}
	})
	if until && !s.spec.asks {
		r.bad(n, "until needs a command that only asks, such as look")
	}
	if expect != nil {
		s.expect = r.expectation(&s, expect)
		s.expect.until = until
	}
	r.sc.steps = append(r.sc.steps, s)
}

// action reads what a step does.
func (r *reader) action(s *step, key, value *yaml.Node) {
	kind := s.subject
	if isClient(kind) {
		r.useClient(key)
		kind = "client"
	}
	known, ok := verbs[kind]
	if !ok || kind == "client" && !isClient(s.subject) {
		r.bad(key, "%q does nothing: a client (a letter), proxy, replica, driver, redis, operator, expect, until", key.Value)
		return
	}
	words, err := split(value.Value)
	if err != nil || len(words) == 0 {
		r.bad(value, "what does %s do? %v", key.Value, err)
		return
	}
	s.verb, s.key = words[0], value.Value
	if s.spec, ok = known[s.verb]; !ok {
		r.bad(value, "%s cannot %q", key.Value, s.verb)
		return
	}
	if s.words, err = s.spec.read(words[1:]); err != nil {
		r.bad(value, "%s: %v", s.verb, err)
		return
	}
	r.names(s, value)
	r.commands[s.key] = s.spec
	r.sc.redis = r.sc.redis || kind == "redis"
	r.sc.moves = r.sc.moves || kind == "proxy" || kind == "replica"
	r.sc.faults = r.sc.faults || kind != "client" && kind != "operator"
}

// names looks at the names that a step gives and uses.
func (r *reader) names(s *step, n *yaml.Node) {
	for _, w := range s.words {
		switch w.sort {
		case "new", "news":
			s.key = fmt.Sprint(w.value)
			if all, ok := w.value.([]string); ok {
				s.key = strings.Join(all, ",")
				for _, name := range all {
					r.commands[name] = s.spec
				}
			}
			if _, twice := r.commands[s.key]; twice {
				r.bad(n, "there is a %s already", s.key)
			}
		case "hold":
			if _, ok := r.commands[fmt.Sprint(w.value)]; !ok {
				r.bad(n, "there is no %v before this step", w.value)
			}
		case "derived":
			name := fmt.Sprint(w.value)
			if slices.Contains(r.sc.clients, name) || r.sc.derived[name] != "" || r.sc.derived[s.subject] != "" {
				r.bad(n, "there is a client %s already, or %s is not connected by itself", name, s.subject)
			}
			r.sc.derived[name] = s.subject
		case "client":
			name := fmt.Sprint(w.value)
			r.sc.alone[name] = r.sc.alone[name] || s.subject == "driver"
		case "number":
			if i, _ := w.value.(int64); s.subject == "replica" && int(i) >= r.sc.replicas {
				r.bad(n, "there is no replica %d: they count from 0", i)
			}
		}
	}
}

// expectation reads what is expected after a step.
func (r *reader) expectation(s *step, n *yaml.Node) *expectation {
	e := &expectation{about: make(map[string]string)}
	if n.Kind == yaml.ScalarNode && n.Value == "later" && isClient(s.subject) {
		e.later = true
		return e
	}
	may := r.selects(s, e, n)
	r.pairs(n, "what is expected", func(key, value *yaml.Node) {
		name := key.Value
		switch {
		case name == "event" || name == "answer" || e.about[name] != "":
		case name == "within":
			var err error
			if e.within, err = readTime(value.Value); err != nil {
				r.bad(value, "within: %v", err)
			}
		case !slices.Contains(strings.Fields(may), name):
			r.bad(key, "nothing tells %q here: %s", name, may)
		default:
			w, holds, err := newWant(name, value)
			if err != nil {
				r.bad(value, "%v", err)
			}
			for _, hold := range holds {
				if _, ok := r.commands[hold]; !ok {
					r.bad(value, "there is no hold %s before this step", hold)
				}
			}
			e.wants = append(e.wants, w)
		}
	})
	return e
}

// selects reads which answer or event is meant, and returns the fields that it has.
func (r *reader) selects(s *step, e *expectation, n *yaml.Node) (may string) {
	found := make(map[string]string)
	for i := 0; i+1 < len(n.Content); i += 2 {
		found[n.Content[i].Value] = n.Content[i+1].Value
	}
	e.event, e.answer = found["event"], found["answer"]
	_, e.fails = found["error"]
	spec := s.spec
	switch {
	case e.event != "":
		fields, ok := events[e.event]
		if !ok {
			r.bad(n, "there is no event %q", e.event)
		}
		for name := range strings.FieldsSeq(fields[0]) {
			if e.about[name] = found[name]; found[name] == "" {
				r.bad(n, "the event %s needs: %s", e.event, fields[0])
			}
		}
		return fields[1]
	case e.answer != "":
		var ok bool
		if spec, ok = r.commands[e.answer]; !ok {
			r.bad(n, "there is no command %q before this step", e.answer)
		}
	case !isClient(s.subject):
		r.bad(n, "which event, or the answer to what?")
	}
	if e.fails {
		return "error within " + details
	}
	return "within " + spec.answer
}
