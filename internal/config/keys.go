package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"
)

// envPrefix is what the variables begin with that are lockd's.
const envPrefix = "LOCKD_"

// flatten is the value of each key of a Config, the key with dots: "session.ttl".
func flatten(c Config) map[string]any {
	out := map[string]any{}
	flattenInto(out, "", reflect.ValueOf(c))
	return out
}

func flattenInto(out map[string]any, prefix string, v reflect.Value) {
	for i := range v.NumField() {
		key := prefix + v.Type().Field(i).Tag.Get("mapstructure")
		if f := v.Field(i); f.Kind() == reflect.Struct {
			flattenInto(out, key+".", f)
		} else {
			out[key] = f.Interface()
		}
	}
}

// Keys are all keys, sorted.
func Keys() []string { return slices.Sorted(maps.Keys(flatten(Default()))) }

// EnvName is the variable that sets a key: "session.ttl" is LOCKD_SESSION_TTL.
func EnvName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}
