package config

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
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
			k.field.Set(k.read(text))
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

// read is the text of a tag as a value of the key.
func (k key) read(text string) reflect.Value {
	value, err := readText(nil, k.field.Type(), text)
	if err != nil {
		panic(fmt.Sprint("a tag of ", k.name, " ", err))
	}
	return reflect.ValueOf(value)
}

// check compares the value with what the tags allow.
func (k key) check(p *problems) {
	if least, ok := k.tag.Lookup("min"); ok {
		p.unless(k.field.Int() >= k.read(least).Int(), k.name, "is %v, must be at least %s", k.field, least)
	}
	if most, ok := k.tag.Lookup("max"); ok {
		p.unless(k.field.Int() <= k.read(most).Int(), k.name, "is %v, must be at most %s", k.field, most)
	}
	if words, ok := k.tag.Lookup("oneof"); ok {
		p.unless(slices.Contains(strings.Fields(words), k.field.String()), k.name, "is %q, must be one of %s",
			k.field, strings.ReplaceAll(words, " ", ", "))
	}
}
