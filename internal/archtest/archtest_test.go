package archtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

	words = module + "/internal/lock"
	logs  = module + "/internal/observe"
	watch = module + "/internal/watching"
	peers = module + "/internal/peers"
	bound = module + "/internal/limits"
	queue = module + "/internal/arbiter"
	knots = module + "/internal/deadlock"
	line  = module + "/internal/gate"
	asked = module + "/internal/request"
	views = module + "/internal/inspect"
	sess  = module + "/internal/session"
	core  = module + "/internal/broker"
	store = module + "/internal/redisstore"
	stubs = module + "/api"
	taken = module + "/internal/inbound"
)

// reach says what each package must not reach, directly or through others. A path stands for all below it, so module
// stands for every package of ours. A package may always reach itself.
var reach = []struct {
	pkg  string
	not  []string
	even []string // exceptions from not
	why  string
}{
	{
		pkg: "internal/lock", not: []string{grpc, redis, yaml, module},
		why: "words know nobody",
	},
	{
		pkg: "internal/limits", not: []string{grpc, redis, yaml, module}, even: []string{words},
		why: "what may be had does not depend on what is done with it",
	},
	{
		pkg: "internal/gate", not: []string{grpc, redis, yaml, module},
		why: "waiting does not depend on what is waited for",
	},
	{
		pkg: "internal/certs", not: []string{grpc, redis, yaml, module}, even: []string{logs},
		why: "certificates do not depend on what is said over them",
	},
	{
		pkg: "internal/guard", not: []string{grpc, redis, yaml, module},
		even: []string{words, logs, module + "/internal/peers"},
		why:  "that replicas agree does not depend on what they agree about",
	},
	{
		pkg: "internal/peers", not: []string{grpc, redis, yaml, module}, even: []string{words},
		why: "asking other replicas does not depend on what is asked",
	},
	{
		pkg: "internal/watching", not: []string{grpc, redis, yaml, module}, even: []string{words},
		why: "who watches a name needs to listen and to look, and nothing of the core",
	},
	{
		pkg: "internal/arbiter", not: []string{grpc, redis, yaml, module}, even: []string{words},
		why: "who is next depends on what happened, and on nothing else",
	},
	{
		pkg: "internal/session", not: []string{grpc, redis, yaml, module}, even: []string{words, bound},
		why: "a session knows nothing of names, queues and the store",
	},
	{
		pkg: "internal/request", not: []string{grpc, redis, yaml, module}, even: []string{words, sess, bound},
		why: "what may be asked does not depend on what is held",
	},
	{
		pkg: "internal/deadlock", not: []string{grpc, redis, yaml, module}, even: []string{words, sess, bound, peers, logs},
		why: "deadlocks are found in what replicas tell",
	},
	{
		pkg: "internal/inspect", not: []string{grpc, redis, yaml, module}, even: []string{words, sess, bound, peers},
		why: "what people look at is put together from what others tell",
	},
	{
		pkg: "internal/broker", not: []string{grpc, redis, yaml, module},
		even: []string{words, logs, queue, views, sess, asked, watch, peers, bound, knots},
		why:  "the core is read, tested and trusted on its own",
	},
	{
		pkg: "internal/memstore", not: []string{grpc, redis, yaml, module}, even: []string{words},
		why: "the store in memory is the reference that the others are compared with",
	},
	{
		pkg: "internal/redlock", not: []string{grpc, redis, yaml, module}, even: []string{words, logs},
		why: "a majority is formed of any stores",
	},
	{
		pkg: "internal/watchdog", not: []string{grpc, redis, yaml, module}, even: []string{words, logs},
		why: "renewal works with any store",
	},
	{
		pkg: "internal/inbound", not: []string{grpc, redis, yaml, module}, even: []string{logs, bound, words},
		why: "what arrives is bounded before it is known what is asked",
	},
	{
		pkg: "internal/redisstore", not: []string{grpc, yaml, module}, even: []string{words, logs},
		why: "adapters do not know each other",
	},
	{
		pkg: "internal/redisstore/pipe", not: []string{grpc, yaml, module}, even: []string{logs},
		why: "the way to Redis does not depend on what is sent",
	},
	{
		pkg: "internal/redisstore/sentinel", not: []string{grpc, yaml, module},
		even: []string{words, logs, store + "/pipe"},
		why:  "where the master is does not depend on what is asked there",
	},
	{
		pkg: "internal/redisstore/hub", not: []string{grpc, yaml, module},
		why: "hearing does not depend on what is heard",
	},
	{
		pkg: "internal/redisstore/layout", not: []string{grpc, redis, yaml, module}, even: []string{words},
		why: "what a key is called does not depend on who asks for it",
	},
	{
		pkg: "internal/redisstore/script", not: []string{grpc, yaml, module},
		even: []string{words, logs, store + "/pipe"},
		why:  "a call is made alike for whoever asks",
	},
	{
		pkg: "internal/redisstore/renew", not: []string{grpc, yaml, module},
		even: []string{words, logs, store + "/layout", store + "/pipe", store + "/script"},
		why:  "holds are kept whoever took them, and whoever watches",
	},
	{
		pkg: "internal/redisstore/examine", not: []string{grpc, yaml, module},
		even: []string{words, logs, store + "/layout", store + "/pipe", store + "/renew", store + "/script"},
		why:  "looking at a server depends on nobody who uses it",
	},
	{
		pkg: "internal/redisstore/watch", not: []string{grpc, yaml, module},
		even: []string{words, logs, store + "/hub", store + "/layout", store + "/pipe", store + "/script"},
		why:  "who watches depends on nobody who acquires or renews",
	},
	{
		pkg: "internal/redisstore/vouch", not: []string{grpc, yaml, module}, even: []string{logs},
		why: "whether a server forgot something does not depend on what",
	},
	{
		pkg: "internal/redisstore/rig", not: []string{grpc, yaml, module},
		even: []string{words, logs, store + "/layout", store + "/pipe", store + "/script"},
		why:  "what time does to a lock depends on nobody who keeps it",
	},
	{
		pkg: "internal/redisstore/cluster", not: []string{grpc, yaml, module}, even: []string{words, logs, store},
		why: "a node of a cluster is a Redis like any other",
	},
	{
		pkg: "internal/tracing", not: []string{redis, yaml, module},
		even: []string{core, words, logs, queue, views, sess, asked, watch, peers, bound, knots},
		why:  "spans are made of what the core tells",
	},
	{
		pkg: "internal/grpcapi", not: []string{redis, yaml, module},
		even: []string{
			core, words, logs, queue, views, sess, asked, watch, peers, bound, line, stubs, knots,
			taken,
		},
		why: "adapters do not know each other",
	},
	{
		pkg: "internal/config", not: []string{grpc, redis, module}, even: []string{bound, words},
		why: "configuration describes values and builds nothing",
	},
	{
		pkg: "client", not: []string{redis, yaml, module + "/internal"},
		why: "a user of the SDK compiles all that it reaches",
	},
	{
		pkg: "cmd/lockctl", not: []string{redis, module + "/internal"},
		why: "the tool is a client like any other",
	},
}

// longFiles are the files that may have more than maxLines lines, with the reason.
var longFiles = map[string]string{}

func TestPackagesReachOnlyWhatTheyMay(t *testing.T) {
	readSources(t)
	for _, rule := range reach {
		t.Run(rule.pkg, func(t *testing.T) {
			if _, err := os.Stat(filepath.Join(root, rule.pkg)); errors.Is(err, fs.ErrNotExist) {
				t.Skipf("%s is not written yet", rule.pkg)
			}
			for _, dep := range dependencies(t, rule.pkg) {
				// Kits for tests, as storetest, are below the packages and ask which tier is run.
				allowed := isBelowAny(dep, []string{module + "/" + rule.pkg, module + "/internal/tier"})
				if isBelowAny(dep, rule.not) && !isBelowAny(dep, rule.even) && !allowed {
					t.Errorf("%s reaches %s, but must not: %s", rule.pkg, dep, rule.why)
				}
			}
		})
	}
}

func TestPackagesSayWhatTheyAre(t *testing.T) {
	readSources(t)
	for _, pkg := range packages(t) {
		if strings.HasPrefix(pkg.ImportPath, module+"/api/gen/") {
			continue
		}
		want := "Package " + pkg.Name + " "
		if pkg.Name == "main" {
			want = filepath.Base(pkg.ImportPath) + " " // the program's name, as in its usage text
		}
		if !strings.HasPrefix(pkg.Doc, want) {
			t.Errorf("%s: the package comment begins with %q, want %q", pkg.ImportPath, pkg.Doc, want+"...")
		}
	}
}

func TestFilesAreShortEnoughToRead(t *testing.T) {
	sources := readSources(t)
	for path, lines := range sources {
		if reason := longFiles[path]; lines > maxLines && reason == "" {
			t.Errorf("%s has %d lines, want at most %d: split it by idea, or list it in longFiles with the reason",
				path, lines, maxLines)
		}
	}
	for path := range longFiles {
		if sources[path] <= maxLines {
			t.Errorf("%s is listed in longFiles, but is gone or short again: take it off the list", path)
		}
	}
}

// readSources returns how many lines each Go file of ours has that is not generated.
//
// Every test calls it, also for its side effect: go test repeats a cached result unless a file changed that the test
// itself opened, and the go commands that the other tests run do not count as the test.
func readSources(t *testing.T) map[string]int {
	t.Helper()
	lines := map[string]int{}
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && isForeign(path, entry.Name()) {
			return filepath.SkipDir
		}
		if entry.IsDir() || filepath.Ext(path) != ".go" {
			return nil
		}
		n, err := countLines(path)
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		if n > 0 {
			lines[filepath.ToSlash(name)] = n
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(lines) == 0 {
		t.Fatalf("no Go files below %s, so there is nothing that could break a rule", root)
	}
	return lines
}

// isForeign tells the directories that hold no sources of ours: hidden ones, where caches are, and build products.
func isForeign(path, name string) bool {
	hidden := strings.HasPrefix(name, ".") && path != root
	return hidden || name == "node_modules" || name == "target"
}

var generated = regexp.MustCompile(`^// Code generated .* DO NOT EDIT\.$`)

// countLines returns 0 for a generated file.
func countLines(path string) (int, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	n := 0
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		if generated.Match(scanner.Bytes()) {
			return 0, nil
		}
		n++
	}
	return n, scanner.Err()
}

// dependencies returns all that pkg reaches, itself included, without its tests.
func dependencies(t *testing.T, pkg string) []string {
	t.Helper()
	// -e: a package that does not compile is for the compiler to report.
	deps := strings.Fields(goCommand(t, "list", "-e", "-deps", "./"+pkg+"/..."))
	if len(deps) == 0 {
		t.Fatalf("go list found no package in %s", pkg)
	}
	return deps
}

// goPackage is what these tests ask the go command about a package.
type goPackage struct {
	ImportPath string
	Name       string
	Doc        string // the first sentence of its comment
}

func packages(t *testing.T) []goPackage {
	t.Helper()
	out := json.NewDecoder(strings.NewReader(goCommand(t, "list", "-e", "-json=ImportPath,Name,Doc", "./...")))
	var all []goPackage
	for {
		var pkg goPackage
		if err := out.Decode(&pkg); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("reading the output of go list: %v", err)
		}
		all = append(all, pkg)
	}
}

func goCommand(t *testing.T, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", args...)
	cmd.Dir = root
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, stderr.String())
	}
	return string(out)
}

func isBelowAny(path string, tops []string) bool {
	for _, top := range tops {
		if path == top || strings.HasPrefix(path, top+"/") {
			return true
		}
	}
	return false
}
