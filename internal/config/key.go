package config

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key is one field of a Config, with its full name and its tags. Setting it changes that Config.
type key struct {
	name  string // "session.ttl"
	tag   reflect.StructTag
	field reflect.Value // of a section it is a struct
}

// Default is what lockd does when it is told nothing. configs/lockd.yaml explains each value.
func Default() (c Config) {
	for _, k := range keysOf(&c) {
		if text, ok := k.tag.Lookup("default"); ok {
			k.mustSet(text)
		}
	}
	return c
}

// keysOf are the keys of a Config with its sections, in the order of its fields.
func keysOf(c *Config) []key { return keysBelow("", reflect.ValueOf(c).Elem()) }

func keysBelow(prefix string, section reflect.Value) (keys []key) {
	for f, v := range section.Fields() {
		k := key{prefix + f.Tag.Get("key"), f.Tag, v}
		keys = append(keys, k)
		if k.isSection() {
			keys = append(keys, keysBelow(k.name+".", v)...)
		}
	}
	return keys
}

func (k key) isSection() bool { return k.field.Kind() == reflect.Struct }

// variable is the environment variable that sets the key: LOCKD_SESSION_TTL.
func (k key) variable() string {
	return "LOCKD_" + strings.ToUpper(strings.ReplaceAll(k.name, ".", "_"))
}

// set reads a value from text. When it cannot, the key keeps its value.
func (k key) set(text string) (err error) {
	if k.isSection() {
		return errors.New("is a section: its keys stand below it")
	}
	var v any = text
	var want string
	switch k.field.Interface().(type) {
	case time.Duration:
		want = "a duration with its unit, like 30s"
		v, err = time.ParseDuration(text)
	case int:
		want = "a whole number"
		v, err = strconv.ParseInt(text, 0, 0)
	case bool:
		want = "true or false"
		v, err = strconv.ParseBool(text)
	case []string:
		k.setList(strings.Split(text, ","))
		return nil
	}
	if err != nil {
		return fmt.Errorf("is %q, must be %s", text, want)
	}
	k.field.Set(reflect.ValueOf(v).Convert(k.field.Type()))
	return nil
}

// setList sets a key that is a list. A list without words is none.
func (k key) setList(words []string) {
	var list []string
	for _, w := range words {
		if w = strings.TrimSpace(w); w != "" {
			list = append(list, w)
		}
	}
	k.field.Set(reflect.ValueOf(list))
}

func (k key) isList() bool { return k.field.Kind() == reflect.Slice }

// check compares the value with what the tags allow.
func (k key) check() error {
	if least, ok := k.tag.Lookup("min"); ok && k.field.Int() < k.bound(least) {
		return fmt.Errorf("is %v, must be at least %s", k.field, least)
	}
	if most, ok := k.tag.Lookup("max"); ok && k.field.Int() > k.bound(most) {
		return fmt.Errorf("is %v, must be at most %s", k.field, most)
	}
	words, ok := k.tag.Lookup("oneof")
	if ok && !slices.Contains(strings.Fields(words), k.field.String()) {
		return fmt.Errorf("is %q, must be one of %s%s", k.field, strings.ReplaceAll(words, " ", ", "),
			k.hint(k.field.String()))
	}
	return nil
}

// hint says what may be meant instead of a word, as the tag has it: WORD=MEANT.
func (k key) hint(word string) string {
	for pair := range strings.FieldsSeq(k.tag.Get("hint")) {
		if said, meant, _ := strings.Cut(pair, "="); strings.EqualFold(said, word) {
			return fmt.Sprintf("; did you mean %s?", meant)
		}
	}
	return ""
}

// bound is a tag's text as a value of the key.
func (k key) bound(text string) int64 {
	b := key{name: k.name, field: reflect.New(k.field.Type()).Elem()}
	b.mustSet(text)
	return b.field.Int()
}

func (k key) mustSet(text string) {
	if err := k.set(text); err != nil {
		panic(fmt.Sprint("a tag of ", k.name, " ", err))
	}
}
