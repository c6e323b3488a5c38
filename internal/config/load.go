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

// layers are viper's layers, and the mistakes in them. A value is a node of the file, or a text of another layer.
type layers struct {
	*viper.Viper
	problems
	names, lists, variables []string // of keys; names has sections, too, and lists the keys of several words
}

// Load builds the Config. The defaults are overridden by the file that args name, that by LOCKD_ variables, and those
// by args. A key whose value cannot be read has its default. The error joins all mistakes.
func Load(args Args) (Config, error) {
	c := Default()
	l := layers{Viper: args.layers}
	for _, k := range keysOf(&c) {
		section := k.name[:max(0, strings.LastIndex(k.name, "."))]
		l.names = append(l.names, k.name, cmp.Or(section, k.name))
		l.variables = append(l.variables, k.variable())
		if k.field.Kind() == reflect.Slice {
			l.lists = append(l.lists, k.name)
		}
	}
	if args.File != "" || args.Check {
		l.readFile(args.File)
	}
	l.checkVariables()
	for _, k := range keysOf(&c) {
		given, from := l.Get(k.name), "environment"
		if node, ok := given.(*yaml.Node); ok {
			given, from = l.valueOf(k.name, node), fmt.Sprint("line ", node.Line)
		}
		if err := k.set(given); err != nil {
			l.add("%s: %v (%s)", k.name, err, from)
		}
	}
	c.validate(&l.problems)
	return c, errors.Join(l.problems...)
}

func (l *layers) readFile(path string) {
	var file yaml.Node
	text, err := os.ReadFile(path)
	if err == nil { // reading into a map finds keys that come twice, and anchors that contain themselves
		err = cmp.Or(yaml.Unmarshal(text, &map[string]any{}), yaml.Unmarshal(text, &file))
	}
	if err != nil {
		l.add("read the configuration: %w", err)
		return
	}
	for _, root := range file.Content {
		l.readSection("", root)
	}
}

// readSection gives viper the keys of a mapping, with nodes as values: viper's own types would make 7 of a name like
// 007. Null and an empty section count as absent.
func (l *layers) readSection(prefix string, section *yaml.Node) {
	for i := 0; i+1 < len(section.Content); i += 2 {
		at, node := section.Content[i], *cmp.Or(section.Content[i+1].Alias, section.Content[i+1])
		name := prefix + strings.ToLower(at.Value)
		isSection := slices.ContainsFunc(l.names, func(below string) bool { return strings.HasPrefix(below, name+".") })
		switch {
		case node.Kind == yaml.MappingNode && (isSection || len(node.Content) > 0):
			l.readSection(name+".", &node)
		case isSection && isNull(&node):
		case isSection:
			l.add("%s: is a section: its keys stand below it (line %d)", name, at.Line)
		case !l.know(name, l.names, fmt.Sprint("line ", at.Line)) || isNull(&node):
		case l.valueOf(name, &node) == nil: // even if another layer overrides it
			l.add("%s: must be one value, or a list of words where words are asked for (line %d)", name, at.Line)
		default:
			node.Line = at.Line
			_ = l.MergeConfigMap(map[string]any{name: &node}) // never fails
		}
	}
}

func isNull(n *yaml.Node) bool { return n.Tag == "!!null" }

// valueOf is the text of a node, or its words if the key has words; nil if it is neither.
func (l *layers) valueOf(name string, node *yaml.Node) any {
	var words []string
	switch {
	case node.Kind == yaml.ScalarNode:
		return node.Value
	case slices.Contains(l.lists, name) && !slices.ContainsFunc(node.Content, isNull) && node.Decode(&words) == nil:
		return words
	}
	return nil
}

// ofOthers are the variables of lockctl, of other clients, of the programs that lockctl starts, and those that
// Kubernetes gives to every pod beside a Service called lockd or lockd-something.
var ofOthers = regexp.MustCompile(
	`^LOCKD_(ADDR|ADMIN_ADDR|ACTOR|NAMES?|FENCES?|TLS|CACERT|CERT|KEY|TOKEN_FILE|SERVER_NAME|` +
		`(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?))$`)

// checkVariables reports LOCKD_ variables that name no key. An empty variable counts as absent.
func (l *layers) checkVariables() {
	for _, pair := range slices.Sorted(slices.Values(os.Environ())) {
		name, text, _ := strings.Cut(pair, "=")
		if strings.HasPrefix(name, "LOCKD_") && text != "" && !ofOthers.MatchString(name) {
			l.know(name, l.variables, "environment")
		}
	}
}

// know says whether a name is known. If not, it adds a problem that suggests the name that may be meant.
func (l *layers) know(name string, known []string, from string) bool {
	typos := func(meant string) int {
		if strings.HasPrefix(meant, name+"_") || strings.HasSuffix(meant, "."+name) {
			return 0
		}
		return levenshtein.ComputeDistance(meant, name)
	}
	if slices.Contains(known, name) {
		return true
	}
	hint, nearest := "", slices.MinFunc(known, func(a, b string) int { return cmp.Compare(typos(a), typos(b)) })
	switch {
	case name == "clients":
		hint = "; this looks like a clients file: LOCKD_SECURITY_CLIENTS_FILE=FILE lockd --check-config /dev/null checks one"
	case typos(nearest) <= 2:
		hint = "; did you mean " + nearest + "?"
	}
	l.add("%s: there is no such key (%s)%s", name, from, hint)
	return false
}
