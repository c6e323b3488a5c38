package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Load builds the Config from, lowest first, the defaults, the file that args name, env ("KEY=value", as os.Environ
// gives it) and args. Its error joins everything that is wrong.
func Load(args Args, env []string) (Config, error) {
	c := Default()
	l := loader{known: map[string]key{}, given: map[string]given{}}
	keys := keysOf(&c)
	for _, k := range keys {
		l.known[k.name], l.known[k.variable()] = k, k
	}
	if args.File != "" || args.Check {
		text, err := os.ReadFile(args.File)
		if err != nil {
			return Config{}, fmt.Errorf("read the configuration: %w", err)
		}
		l.readFile(text)
	}
	l.readEnv(env)
	for name, text := range args.set {
		l.note(name, text, "command line")
	}
	for _, k := range keys {
		g, ok := l.given[k.name]
		switch {
		case ok && g.isList:
			k.setList(g.list)
		case ok:
			if err := k.set(g.text); err != nil {
				l.add(k.name, "%v (%s)", err, g.from)
			}
		}
	}
	c.validate(&l.problems)
	if err := errors.Join(l.problems...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// loader notes what is given for each key, the last one wins, and what is wrong.
type loader struct {
	problems
	known map[string]key   // by their names and by their variables
	given map[string]given // by the names of keys
}

// given is a text, or a list, and where it is from.
type given struct {
	text, from string
	isList     bool
	list       []string
}

func (l *loader) note(name, text, from string) { l.noteGiven(name, given{text: text, from: from}) }

func (l *loader) noteGiven(name string, g given) {
	if k, ok := l.known[name]; ok {
		l.given[k.name] = g
	} else {
		l.add(name, "there is no such key (%s)%s", g.from, didYouMean(name, slices.Sorted(maps.Keys(l.known))))
	}
}

// noteList notes a list of the file, whose words are values.
func (l *loader) noteList(name string, nodes []*yaml.Node, from string) {
	g := given{from: from, isList: true}
	for _, n := range nodes {
		if n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n.Kind != yaml.ScalarNode {
			l.add(name, "must be a list of words (%s)", from)
			return
		}
		g.list = append(g.list, n.Value)
	}
	l.noteGiven(name, g)
}

func (l *loader) readFile(text []byte) {
	var file yaml.Node
	err := yaml.Unmarshal(text, &map[string]any{}) // finds keys that come twice, and anchors that contain themselves
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		l.problems = append(l.problems, fmt.Errorf("read the configuration: %w", err))
	} else if !file.IsZero() {
		l.readSection("", file.Content[0])
	}
}

// readSection notes the keys of a mapping. Null and an empty section are as good as nothing.
func (l *loader) readSection(prefix string, section *yaml.Node) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		at, node := section.Content[i], section.Content[i+1]
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		name, line := prefix+strings.ToLower(at.Value), fmt.Sprint("line ", at.Line)
		k, known := l.known[name]
		switch {
		case node.Kind == yaml.MappingNode && len(node.Content) > 0:
			l.readSection(name+".", node)
		case known && node.Tag == "!!null", k.isSection() && node.Kind == yaml.MappingNode:
		case known && k.isList() && node.Kind == yaml.SequenceNode:
			l.noteList(name, node.Content, line)
		case known && node.Kind != yaml.ScalarNode:
			l.add(name, "must be one value (%s)", line)
		default:
			l.note(name, node.Value, line)
		}
	}
}

// ofLockctl are the variables of lockctl, of other clients, and of the programs that lockctl starts.
var ofLockctl = []string{
	"LOCKD_ADDR", "LOCKD_ADMIN_ADDR", "LOCKD_ACTOR", "LOCKD_NAME", "LOCKD_FENCE", "LOCKD_NAMES", "LOCKD_FENCES",
	"LOCKD_TLS", "LOCKD_CACERT", "LOCKD_CERT", "LOCKD_KEY", "LOCKD_SERVER_NAME",
}

// ofKubernetes are the variables that Kubernetes gives to every pod beside a Service called lockd or lockd-something.
var ofKubernetes = regexp.MustCompile(
	`^LOCKD_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// readEnv notes the keys that variables name. An empty variable is as good as none.
func (l *loader) readEnv(env []string) {
	for _, pair := range slices.Sorted(slices.Values(env)) {
		name, text, _ := strings.Cut(pair, "=")
		foreign := slices.Contains(ofLockctl, name) || ofKubernetes.MatchString(name)
		if strings.HasPrefix(name, "LOCKD_") && text != "" && !foreign {
			l.note(name, text, "environment")
		}
	}
}

// didYouMean suggests one of the known names for one that is not known.
func didYouMean(name string, known []string) string {
	for _, k := range known {
		if strings.HasPrefix(k, name+"_") || strings.HasSuffix(k, "."+name) || isTypo(k, name) {
			return "; did you mean " + k + "?"
		}
	}
	return ""
}

// isTypo says whether two words differ in at most two letters that stand side by side.
func isTypo(a, b string) bool {
	for a != "" && b != "" && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for a != "" && b != "" && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	return max(len(a), len(b)) <= 2
}
