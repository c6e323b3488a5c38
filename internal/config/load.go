package config

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/agnivade/levenshtein"
	"github.com/spf13/viper"
	"go.yaml.in/yaml/v3"
)

// Load builds the Config from, lowest first, the defaults, the file that args name, LOCKD_ variables and args. Its
// error joins everything that is wrong.
func Load(args Args) (Config, error) {
	c, found := read(args)
	c.validate(&found)
	if err := errors.Join(found...); err != nil {
		return Config{}, err
	}
	return c, nil
}

// layers are viper's, and what is wrong with them.
type layers struct {
	*viper.Viper
	problems
	keys             map[string]key
	names, variables []string       // of the keys
	lines            map[string]int // of what is in the file
}

// read is what is given, and what is wrong with it. What cannot be read has its default.
func read(args Args) (Config, problems) {
	c := Default()
	l := layers{Viper: args.layers, keys: map[string]key{}, lines: map[string]int{}}
	l.SetEnvPrefix("lockd")
	l.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	l.AutomaticEnv()
	for _, k := range keysOf(&c) {
		l.keys[k.name], l.names = k, append(l.names, k.name)
		if !k.isSection() {
			l.variables = append(l.variables, k.variable())
			l.SetDefault(k.name, k.field.Interface())
		}
	}
	if args.File != "" || args.Check {
		l.readFile(args.File)
	}
	l.refuseUnknownVariables()
	for _, k := range keysOf(&c) {
		if !k.isSection() {
			l.take(k)
		}
	}
	return c, l.problems
}

// take sets a key to what the highest layer says.
func (l *layers) take(k key) {
	from := fmt.Sprint("line ", l.lines[k.name])
	if os.Getenv(k.variable()) != "" {
		from = "environment"
	}
	if err := k.set(l.Get(k.name)); err != nil {
		l.add("%s: %v (%s)", k.name, err, from)
	}
}

func (l *layers) readFile(path string) {
	var file yaml.Node
	text, err := os.ReadFile(path)
	if err == nil { // into a map, keys that come twice are found, and anchors that contain themselves
		err = cmp.Or(yaml.Unmarshal(text, &map[string]any{}), yaml.Unmarshal(text, &file))
	}
	if err != nil {
		l.add("read the configuration: %w", err)
		return
	}
	values := map[string]any{}
	for _, root := range file.Content {
		l.readSection("", root, values)
	}
	_ = l.MergeConfigMap(values) // never fails
}

// readSection takes the keys of a mapping, as texts: viper's own types would make 7 of a name like 007. Null and an
// empty section are as good as nothing.
func (l *layers) readSection(prefix string, section *yaml.Node, values map[string]any) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		at, node := section.Content[i], section.Content[i+1]
		if node.Kind == yaml.AliasNode {
			node = node.Alias
		}
		name := prefix + strings.ToLower(at.Value)
		k, known := l.keys[name]
		var words []string
		switch {
		case node.Kind == yaml.MappingNode && len(node.Content) > 0:
			l.readSection(name+".", node, values)
		case !known:
			l.unknown(name, fmt.Sprint("line ", at.Line), l.names)
		case isNull(node), k.isSection() && node.Kind == yaml.MappingNode:
		case k.isSection():
			l.add("%s: is a section: its keys stand below it (line %d)", name, at.Line)
		case node.Kind == yaml.ScalarNode:
			l.lines[name], values[name] = at.Line, node.Value
		case k.field.Kind() == reflect.Slice && !slices.ContainsFunc(node.Content, isNull) && node.Decode(&words) == nil:
			l.lines[name], values[name] = at.Line, wordsOf(words)
		default:
			l.add("%s: must be one value, or a list of words where words are asked for (line %d)", name, at.Line)
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Tag == "!!null" }

// ofOthers are the variables of lockctl, of other clients, of the programs that lockctl starts, and those that
// Kubernetes gives to every pod beside a Service called lockd or lockd-something.
var ofOthers = regexp.MustCompile(
	`^LOCKD_(ADDR|ADMIN_ADDR|ACTOR|NAMES?|FENCES?|TLS|CACERT|CERT|KEY|TOKEN_FILE|SERVER_NAME|` +
		`(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?))$`)

// refuseUnknownVariables finds those that name no key. An empty variable is as good as none.
func (l *layers) refuseUnknownVariables() {
	for _, pair := range slices.Sorted(slices.Values(os.Environ())) {
		name, text, _ := strings.Cut(pair, "=")
		known := slices.Contains(l.variables, name) || ofOthers.MatchString(name)
		if strings.HasPrefix(name, "LOCKD_") && text != "" && !known {
			l.unknown(name, "environment", l.variables)
		}
	}
}

// unknown notes a name that is not known, and the one of the known names that may be meant.
func (l *layers) unknown(name, from string, known []string) {
	typos := func(meant string) int {
		if strings.HasPrefix(meant, name+"_") || strings.HasSuffix(meant, "."+name) {
			return 0
		}
		return levenshtein.ComputeDistance(meant, name)
	}
	hint, best := "", slices.MinFunc(known, func(a, b string) int { return cmp.Compare(typos(a), typos(b)) })
	switch {
	case name == "clients":
		hint = "; this looks like a clients file: LOCKD_SECURITY_CLIENTS_FILE=FILE lockd --check-config /dev/null checks one"
	case typos(best) <= 2:
		hint = "; did you mean " + best + "?"
	}
	l.add("%s: there is no such key (%s)%s", name, from, hint)
}

// wordsOf leaves out what is empty. A list without words is none.
func wordsOf(list []string) (words []string) {
	for _, w := range list {
		if w = strings.TrimSpace(w); w != "" {
			words = append(words, w)
		}
	}
	return words
}
