package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-viper/mapstructure/v2"
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

// read is what is given, and what is wrong with it. What cannot be read has its default.
func read(args Args) (Config, problems) {
	c := Default()
	l := loader{Viper: withDefaults(), keys: map[string]key{}, variables: map[string]key{}, lines: map[string]int{}}
	for _, k := range keysOf(&c) {
		l.keys[k.name] = k
		if !k.isSection() {
			l.variables[k.variable()] = k
		}
	}
	if args.File != "" || args.Check {
		l.readFile(args.File)
	}
	l.SetEnvPrefix("lockd")
	l.SetEnvKeyReplacer(strings.NewReplacer(".", "_"))
	l.AutomaticEnv()
	l.refuseUnknownVariables()
	args.bind(l.Viper)
	l.note(l.UnmarshalExact(&c, func(d *mapstructure.DecoderConfig) {
		d.TagName, d.DecodeHook, d.WeaklyTypedInput = "key", readText, false
	}))
	return c, l.problems
}

// withDefaults has the lowest layer.
func withDefaults() *viper.Viper {
	v, c := viper.New(), Default()
	for _, k := range keysOf(&c) {
		if !k.isSection() {
			v.SetDefault(k.name, k.field.Interface())
		}
	}
	return v
}

// loader has a layer of viper for each source, and where the keys stand in the file.
type loader struct {
	*viper.Viper
	problems
	keys, variables map[string]key
	lines           map[string]int
}

// note takes the decoder's errors apart: each is about one key.
func (l *loader) note(err error) {
	switch e := err.(type) { //nolint:errorlint // walks down a tree of errors, one level at a time
	case *mapstructure.DecodeError:
		from := fmt.Sprint("line ", l.lines[e.Name()])
		if os.Getenv(l.keys[e.Name()].variable()) != "" {
			from = "environment"
		}
		l.add(e.Name(), "%v (%s)", e.Unwrap(), from)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			l.note(one)
		}
	case interface{ Unwrap() error }:
		l.note(e.Unwrap())
	case error:
		l.problems = append(l.problems, e)
	}
}

func (l *loader) readFile(path string) {
	var file yaml.Node
	text, err := os.ReadFile(path)
	if err == nil {
		err = yaml.Unmarshal(text, &map[string]any{}) // finds keys that come twice, and anchors that contain themselves
	}
	if err == nil {
		err = yaml.Unmarshal(text, &file)
	}
	if err != nil {
		l.problems = append(l.problems, fmt.Errorf("read the configuration: %w", err))
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
func (l *loader) readSection(prefix string, section *yaml.Node, values map[string]any) {
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
			l.unknown(name, fmt.Sprint("line ", at.Line), l.keys)
		case node.Tag == "!!null", k.isSection() && node.Kind == yaml.MappingNode:
		case k.isSection():
			l.add(name, "is a section: its keys stand below it (line %d)", at.Line)
		case node.Kind == yaml.ScalarNode:
			l.lines[name], values[name] = at.Line, node.Value
		case k.field.Kind() == reflect.Slice && !slices.ContainsFunc(node.Content, isNull) && node.Decode(&words) == nil:
			l.lines[name], values[name] = at.Line, wordsOf(words)
		default:
			l.add(name, "must be one value, or a list of words where words are asked for (line %d)", at.Line)
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
func (l *loader) refuseUnknownVariables() {
	for _, pair := range slices.Sorted(slices.Values(os.Environ())) {
		name, text, _ := strings.Cut(pair, "=")
		_, known := l.variables[name]
		if strings.HasPrefix(name, "LOCKD_") && text != "" && !known && !ofOthers.MatchString(name) {
			l.unknown(name, "environment", l.variables)
		}
	}
}

// unknown notes a name that is not known, and one of the known names that may be meant.
func (l *loader) unknown(name, from string, keys map[string]key) {
	hint := ""
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		if strings.HasPrefix(k, name+"_") || strings.HasSuffix(k, "."+name) || isTypo(k, name) {
			hint = "; did you mean " + k + "?"
			break
		}
	}
	if name == "clients" {
		hint = "; this looks like a clients file: LOCKD_SECURITY_CLIENTS_FILE=FILE lockd --check-config /dev/null checks one"
	}
	l.add(name, "there is no such key (%s)%s", from, hint)
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

// readText is what the decoder makes of the texts of files, variables, flags and tags.
func readText(_, to reflect.Type, data any) (value any, err error) {
	text, isText := data.(string)
	want := ""
	switch {
	case to == reflect.TypeFor[[]string]() && isText:
		return wordsOf(strings.Split(text, ",")), nil
	case !isText:
		return data, nil
	case to == reflect.TypeFor[time.Duration]():
		value, err = time.ParseDuration(text)
		want = "a duration with its unit, like 30s"
	case to.Kind() == reflect.Int:
		n, failed := strconv.ParseInt(text, 0, 0)
		value, err = int(n), failed
		want = "a whole number"
	case to.Kind() == reflect.Bool:
		value, err = strconv.ParseBool(text)
		want = "true or false"
	default:
		return text, nil
	}
	if err != nil {
		return nil, fmt.Errorf("is %q, must be %s", text, want)
	}
	return value, nil
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
