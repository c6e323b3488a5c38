package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	root   = "../.." // of the module, seen from this directory
	module = "github.com/lockd-io/lockd"

	grpc  = "google.golang.org/grpc"
	redis = "github.com/redis/go-redis"
	yaml  = "go.yaml.in/yaml"

	maxLines = 500
)

// What a package must not reach: module stands for every package of ours.
var (
	everybody = []string{grpc, redis, yaml, module}
	butRedis  = []string{grpc, yaml, module}
	butGRPC   = []string{redis, yaml, module}
	butYAML   = []string{grpc, redis, module}
)

// reach says what each package must not reach, directly or through others, except for even. A path stands for all below
// it. A package may always reach itself.
var reach = []struct {
	pkg  string
	not  []string
	even string // names of packages below internal
	why  string
}{
	{"internal/lock", everybody, "", "words know nobody"},
	{"internal/limits", everybody, "lock", "what may be had does not depend on what is done with it"},
	{"internal/gate", everybody, "", "waiting does not depend on what is waited for"},
	{"internal/secret", everybody, "", "hiding does not depend on what is hidden"},
	{"internal/address", everybody, "lock", "an address does not depend on what is there"},
	{
		"internal/endpoint", everybody, "lock address certs observe secret",
		"where lockd listens does not depend on who comes",
	},
	{"internal/topology", everybody, "lock address secret", "where a store is does not depend on who connects to it"},
	{"internal/certs", everybody, "observe secret", "certificates do not depend on what is said over them"},
	{
		"internal/security", butYAML, "lock limits observe",
		"who somebody is and what it may depends on nothing that is done with locks",
	},
	{"internal/agreement", everybody, "lock observe peers", "that they agree does not depend on what they agree about"},
	{"internal/peers", everybody, "lock", "asking other replicas does not depend on what is asked"},
	{"internal/watching", everybody, "lock", "who watches a name needs to listen and to look, and nothing of the core"},
	{"internal/arbiter", everybody, "lock", "who is next depends on what happened, and on nothing else"},
	{"internal/history", everybody, "lock", "what is remembered depends on nobody who looks at it"},
	{
		"internal/session", everybody, "lock limits observe watching",
		"the relation with a client does not depend on what is done about names",
	},
	{
		"internal/request", everybody, "lock session limits observe watching",
		"what may be asked does not depend on what is held",
	},
	{
		"internal/deadlock", everybody, "lock session limits peers observe watching",
		"deadlocks are found in what replicas tell",
	},
	{
		"internal/inspect", everybody, "lock session limits peers observe watching history",
		"what people look at is put together from what others tell",
	},
	{
		"internal/broker", everybody, "lock observe arbiter inspect session request watching peers limits deadlock history",
		"the core is read, tested and trusted on its own",
	},
	{"internal/memstore", everybody, "lock", "the store in memory is the reference that the others are compared with"},
	{"internal/redlock", everybody, "lock observe", "a majority is formed of any stores"},
	{"internal/settle", everybody, "lock observe", "any store is settled"},
	{"internal/watchdog", everybody, "lock observe", "renewal works with any store"},
	{"internal/inbound", everybody, "observe limits lock", "what arrives is bounded before it is known what is asked"},
	{"internal/redisstore", butRedis, "lock observe", "adapters do not know each other"},
	{"internal/redisstore/pipe", butRedis, "observe", "the way to Redis does not depend on what is sent"},
	{
		"internal/redisstore/sentinel", butRedis, "lock observe redisstore/pipe",
		"where the master is does not depend on what is asked there",
	},
	{"internal/redisstore/hub", butRedis, "", "hearing does not depend on what is heard"},
	{"internal/redisstore/layout", everybody, "lock", "what a key is called does not depend on who asks for it"},
	{"internal/redisstore/script", butRedis, "lock observe redisstore/pipe", "a call is made alike for whoever asks"},
	{
		"internal/redisstore/renew", butRedis, "lock observe redisstore/layout redisstore/pipe redisstore/script",
		"holds are kept whoever took them, and whoever watches",
	},
	{
		"internal/redisstore/examine", butRedis,
		"lock observe redisstore/layout redisstore/pipe redisstore/renew redisstore/script",
		"looking at a server depends on nobody who uses it",
	},
	{
		"internal/redisstore/watch", butRedis,
		"lock observe redisstore/hub redisstore/layout redisstore/pipe redisstore/script",
		"who watches depends on nobody who acquires or renews",
	},
	{
		"internal/redisstore/dataloss", butRedis, "observe redisstore/pipe",
		"whether a server forgot something does not depend on what",
	},
	{
		"internal/redistest/rig", butRedis, "lock observe redisstore/layout redisstore/pipe redisstore/script",
		"what time does to a lock depends on nobody who keeps it",
	},
	{
		"internal/redisstore/cluster", butRedis, "lock observe redisstore",
		"a node of a cluster is a Redis like any other",
	},
	{"internal/tracing", butGRPC, "observe", "sending spans does not depend on what they tell"},
	{
		"internal/grpcapi",
		[]string{redis, module}, // security reads the clients file
		"broker lock observe arbiter inspect session request watching peers limits gate ../api deadlock inbound security " +
			"history",
		"adapters do not know each other",
	},
	{
		"internal/httpapi",
		[]string{redis, yaml, module + "/internal", module + "/client"},
		"limits lock observe web",
		"adapters do not know each other",
	},
	{"internal/web", everybody, "observe limits lock", "serving HTTP does not depend on what is served"},
	{
		"internal/console",
		[]string{redis, yaml, module + "/internal", module + "/client"},
		"limits lock observe web",
		"adapters do not know each other",
	},
	{
		"internal/config",
		[]string{grpc, redis, module},
		"limits lock address certs endpoint observe secret topology", // each owns a section or reads its values
		"configuration describes values and builds nothing",
	},
	{"client", []string{redis, yaml, module + "/internal"}, "", "a user of the SDK compiles all that it reaches"},
	{"cmd/lockctl", []string{redis, module + "/internal"}, "", "the tool is a client like any other"},
}

// longFiles are the files that may have more than maxLines lines, with the reason.
var longFiles = map[string]string{}

func TestPackagesReachOnlyWhatTheyMay(t *testing.T) {
	all := packages(t)
	for _, rule := range reach {
		t.Run(rule.pkg, func(t *testing.T) {
			// Kits for tests, as storetest, are below the packages and ask which tier is run.
			may := []string{path.Join(module, rule.pkg), module + "/internal/tier"}
			for name := range strings.FieldsSeq(rule.even) {
				may = append(may, path.Join(module, "internal", name))
			}
			for _, dep := range all.reachedFrom(t, rule.pkg) {
				if isBelowAny(dep, rule.not) && !isBelowAny(dep, may) {
					t.Errorf("%s reaches %s, but must not: %s", rule.pkg, dep, rule.why)
				}
			}
		})
	}
}

func TestPackagesSayWhatTheyAre(t *testing.T) {
	for _, pkg := range packages(t) {
		if strings.HasPrefix(pkg.ImportPath, module+"/api/gen/") {
			continue
		}
		want := "Package " + pkg.Name + " "
		if pkg.Name == "main" {
			want = path.Base(pkg.ImportPath) + " " // the program's name, as in its usage text
		}
		if !strings.HasPrefix(pkg.Doc, want) {
			t.Errorf("%s: the package comment begins with %q, want %q", pkg.ImportPath, pkg.Doc, want+"...")
		}
	}
}

func TestFilesAreShortEnoughToRead(t *testing.T) {
	long := map[string]bool{}
	for _, f := range goFiles(t) {
		lines := strings.Count(f.text, "\n")
		long[f.path] = lines > maxLines
		if reason := longFiles[f.path]; lines > maxLines && reason == "" {
			t.Errorf("%s has %d lines, want at most %d: split it by idea, or list it in longFiles with the reason",
				f.path, lines, maxLines)
		}
	}
	for path := range longFiles {
		if !long[path] {
			t.Errorf("%s is listed in longFiles, but is gone or short again: take it off the list", path)
		}
	}
}

// `docker build .` compiles in a copy of what .dockerignore lets through: all that the programs are made of must be
// there.
func TestTheImageIsBuiltFromAllThatItNeeds(t *testing.T) {
	var copied []string
	for line := range strings.Lines(textOf(t, ".dockerignore")) {
		if dir, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			copied = append(copied, module+"/"+dir)
		}
	}
	all := packages(t)
	for _, program := range []string{"cmd/lockd", "cmd/lockctl"} {
		for _, dep := range all.reachedFrom(t, program) {
			if isBelowAny(dep, []string{module}) && !isBelowAny(dep, copied) {
				t.Errorf("%s is made of %s, which .dockerignore keeps out of the image's build", program, dep)
			}
		}
	}
}

func isBelowAny(path string, tops []string) bool {
	return slices.ContainsFunc(tops, func(top string) bool { return path == top || strings.HasPrefix(path, top+"/") })
}

// What is sorted is compared, not subtracted: a difference may overflow an int, on a machine of 32 bits already that of
// two times 2.2 s apart.
func TestNothingIsComparedBySubtraction(t *testing.T) {
	for _, f := range goFiles(t) {
		ast.Inspect(f.code, func(n ast.Node) bool {
			if lit, ok := n.(*ast.FuncLit); ok && subtracts(lit) {
				t.Errorf("%s: a function that compares subtracts: use cmp.Compare", position(n.Pos()))
			}
			return true
		})
	}
}

// subtracts says whether a function of two things returns a difference, as an int.
func subtracts(f *ast.FuncLit) (found bool) {
	if f.Type.Results == nil || f.Type.Results.NumFields() != 1 || f.Type.Params.NumFields() != 2 {
		return false
	}
	if of, ok := f.Type.Results.List[0].Type.(*ast.Ident); !ok || of.Name != "int" {
		return false
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		r, ok := n.(*ast.ReturnStmt)
		if !ok || len(r.Results) != 1 {
			return true
		}
		e := r.Results[0]
		if call, is := e.(*ast.CallExpr); is && len(call.Args) == 1 {
			if of, isName := call.Fun.(*ast.Ident); isName && of.Name == "int" {
				e = call.Args[0]
			}
		}
		minus, is := e.(*ast.BinaryExpr)
		found = found || is && minus.Op == token.SUB
		return true
	})
	return found
}

// literalKey is a log field whose key is written where it is logged.
var literalKey = regexp.MustCompile(`\bzap\.[A-Z]\w*\("`)

// One thing has one name in all log lines: the keys are the constants of package observe.
func TestKeysOfLogFieldsAreConstants(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") || !isBelowAny(f.path, []string{"internal", "cmd"}) {
			continue
		}
		for _, found := range literalKey.FindAllString(f.text, -1) {
			t.Errorf("%s: %s...: use a constant of internal/observe", f.path, found)
		}
	}
}

// TestArbiterReadsNoClock looks for what would make the core of arbitration depend on more than on what it is told: a
// clock, a goroutine, a channel, a mutex.
func TestArbiterReadsNoClock(t *testing.T) {
	looked := 0
	for _, f := range goFiles(t) {
		if filepath.Dir(f.path) != "internal/arbiter" || strings.HasSuffix(f.path, "_test.go") {
			continue
		}
		looked++
		ast.Inspect(f.code, func(n ast.Node) bool {
			if what := impure(n); what != "" {
				t.Errorf("%s: %s", position(n.Pos()), what)
			}
			return true
		})
	}
	if looked == 0 {
		t.Error("no files were found")
	}
}

// impure says what is impure in a node, "" if nothing is.
func impure(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a goroutine"
	case *ast.ChanType:
		return "a channel"
	case *ast.ImportSpec:
		switch path := strings.Trim(n.Path.Value, `"`); path {
		case "context", "sync", "sync/atomic", "os", "net", "io", "math/rand/v2":
			return path
		}
	case *ast.SelectorExpr:
		pkg, ok := n.X.(*ast.Ident)
		if !ok || pkg.Name != "time" {
			return ""
		}
		switch n.Sel.Name {
		case "Now", "Since", "Until", "After", "AfterFunc", "NewTimer", "NewTicker", "Sleep":
			return "time." + n.Sel.Name
		}
	}
	return ""
}

func TestAnImpurityIsFound(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "", "package p\nfunc f() { _ = time.Now() }", 0)
	if err != nil {
		t.Fatal(err)
	}
	found := false
	ast.Inspect(file, func(n ast.Node) bool {
		found = found || impure(n) != ""
		return true
	})
	if !found {
		t.Error("a clock was not found")
	}
}
