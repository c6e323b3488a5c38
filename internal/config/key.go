package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/go-viper/mapstructure/v2"
)

// key is one field of a Config that is no section, with its full name and its tags. Setting it changes that Config.
type key struct {
	name  string // "session.ttl"
	tag   reflect.StructTag
	field reflect.Value
}

// Default is the Config of a lockd that is told nothing. configs/lockd.yaml explains each value.
func Default() (c Config) {
	for _, k := range keysOf(&c) {
		_ = k.set(k.tag.Get("default")) // never fails, as tests see to; a key without a default stays zero
	}
	return c
}

// keysOf are the keys of a Config, in the order of its fields.
func keysOf(c *Config) []key { return keysBelow("", reflect.ValueOf(c).Elem()) }

func keysBelow(prefix string, section reflect.Value) (keys []key) {
	for f, v := range section.Fields() {
		name := prefix + f.Tag.Get("key")
		switch {
		case f.Anonymous: // its keys are those of the section
			keys = append(keys, keysBelow(prefix, v)...)
		case v.Kind() == reflect.Struct:
			keys = append(keys, keysBelow(name+".", v)...)
		default:
			keys = append(keys, key{name, f.Tag, v})
		}
	}
	return keys
}

// variable is the environment variable that sets the key: LOCKD_SESSION_TTL.
func (k key) variable() string {
	return "LOCKD_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// words are the words that are allowed; none if every text is.
func (k key) words() []string { return strings.Fields(k.tag.Get("oneof")) }

// texts converts a text to the type of its key. A value of another type is not converted.
var texts = mapstructure.ComposeDecodeHookFunc(mapstructure.StringToSliceHookFunc(","),
	mapstructure.StringToTimeDurationHookFunc(), mapstructure.StringToBasicTypeHookFunc())

// set gives the key the value of a text, or of a list of words. nil changes nothing, and neither does an error.
func (k key) set(given any) error {
	to := k.field.Addr().Interface()
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{Result: to, DecodeHook: texts})
	if err == nil {
		err = d.Decode(given)
	}
	if list, ok := to.(*[]string); ok {
		*list = wordsOf(*list)
	}
	if err == nil {
		return nil
	}
	want := map[reflect.Kind]string{
		reflect.Int64: "a duration with its unit, like 30s", reflect.Int: "a whole number", reflect.Bool: "true or false",
	}
	return fmt.Errorf("is %q, must be %s", given, want[k.field.Kind()])
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

// bound is the number in a tag's text.
func (k key) bound(text string) int64 {
	k.field = reflect.New(k.field.Type()).Elem()
	_ = k.set(text) // never fails, as tests see to
	return k.field.Int()
}

// check reports a value that the tags forbid.
func (k key) check(p *problems) {
	if least, ok := k.tag.Lookup("min"); ok {
		p.unless(k.field.Int() >= k.bound(least), "%s: is %v, must be at least %s", k.name, k.field, least)
	}
	if most, ok := k.tag.Lookup("max"); ok {
		p.unless(k.field.Int() <= k.bound(most), "%s: is %v, must be at most %s", k.name, k.field, most)
	}
	if words := k.words(); len(words) > 0 {
		p.unless(slices.Contains(words, k.field.String()), "%s: is %q, must be one of %s",
			k.name, k.field, strings.Join(words, ", "))
	}
}
