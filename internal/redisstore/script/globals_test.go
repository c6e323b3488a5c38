package script

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"
)

// globals returns the names of the global variables that a function and those in it read or write. They stand in
// instructions of Lua 5.1: the operation in the first 6 bits, and in the last 18 the number of the constant that is the
// name.
func globals(f *lua.FunctionProto) (names []string) {
	for _, instruction := range f.Code {
		if op := int(instruction >> 26); op == lua.OP_GETGLOBAL || op == lua.OP_SETGLOBAL {
			names = append(names, f.Constants[instruction&(1<<18-1)].String())
		}
	}
	for _, inner := range f.FunctionPrototypes {
		names = append(names, globals(inner)...)
	}
	return names
}

// Redis has no other global variables. Who reads one, because its local stands further down, has an error at that time.
func TestScriptsReadOnlyGlobalsOfRedis(t *testing.T) {
	t.Parallel()
	known := strings.Fields("KEYS ARGV redis string math table tonumber type pairs ipairs unpack pcall error")
	seconds := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "seconds", Help: "none"}, []string{"script"})
	for _, sc := range NewScripts(&Metrics{Seconds: seconds}, false).all {
		const plant = "local _ = function() return later end local later "
		for name, text := range map[string]string{"as it is": sc.Text, "planted": plant + sc.Text} {
			chunk, err := parse.Parse(strings.NewReader(text), name)
			if err != nil {
				t.Fatal(err)
			}
			f, err := lua.Compile(chunk, name)
			if err != nil {
				t.Fatal(err)
			}
			unknown := slices.DeleteFunc(globals(f), func(name string) bool { return slices.Contains(known, name) })
			if planted := name == "planted"; planted != slices.Contains(unknown, "later") || !planted && len(unknown) > 0 {
				t.Errorf("%s, %s: reads %q", sc.Text[:40], name, unknown)
			}
		}
	}
}
