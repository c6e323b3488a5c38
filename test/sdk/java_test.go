package sdk

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/tier"
	"github.com/lockd-io/lockd/test/harness"
	"github.com/lockd-io/lockd/test/hostile"
)

// javaTime bounds what is run of Java.
const javaTime = 30 * time.Minute

// TestJava runs the tests of the Java SDK, and of what stands on it, on the jars that users get.
func TestJava(t *testing.T) {
	t.Parallel()
	testJava(t, "java")
}

// TestJavaOnOtherJDKs does the same on each other JDK of this machine that is new enough: what is built for the oldest
// one has to run on the newest.
func TestJavaOnOtherJDKs(t *testing.T) {
	tier.Long(t)
	t.Parallel()
	for name, java := range otherJDKs(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testJava(t, java)
		})
	}
}

// oldestJava is the Java that the SDK is built for.
const oldestJava = 17

// otherJDKs are those where distributions put them, by the name of their directory, without that of the PATH.
func otherJDKs(t *testing.T) map[string]string {
	t.Helper()
	mine, err := exec.LookPath("java")
	harness.Must(t, err)
	mine, err = filepath.EvalSymlinks(mine)
	harness.Must(t, err)
	all, err := filepath.Glob("/usr/lib/jvm/*/bin/java")
	harness.Must(t, err)
	seen, others := map[string]bool{mine: true}, make(map[string]string)
	for _, java := range all {
		program, err := filepath.EvalSymlinks(java)
		harness.Must(t, err)
		home := filepath.Dir(filepath.Dir(java))
		release, err := os.ReadFile(filepath.Join(home, "release"))
		if err != nil || seen[program] {
			continue // it has no version, or another name
		}
		seen[program] = true
		_, version, _ := strings.Cut(string(release), `JAVA_VERSION="`)
		version, _, _ = strings.Cut(version, `"`)
		major, _, _ := strings.Cut(version, ".")
		if n, err := strconv.Atoi(major); err == nil && n >= oldestJava {
			others[filepath.Base(home)] = java
		}
	}
	return others
}

// testJava runs all classes of tests with a Java. Each has a JVM of its own, so that they run side by side.
func testJava(t *testing.T, java string) {
	t.Helper()
	sdk := buildJava(t)
	servers, scripts := serve(t, hostile.Serve), serve(t, hostile.ServeScripts)
	for _, of := range []struct{ module, tests string }{
		{"client", "HandleTest"},
		{"client", "LossTest"},
		{"client", "FarTest"},
		{"client", "internal.DeadlinesTest"},
		{"client", "internal.LoopTest"},
		{"client", "WaitTest"},
		{"client", "BoundsTest"},
		{"client", "CloseTest"},
		{"client", "HostileTest"},
		{"client", "ScriptTest"},
		{"client", "ElectionTest"},
		{"client", "LeasesTest"},
		{"client", "internal.CallbacksTest"},
		{"client", "internal.HoldTest"},
		{"client", "locks.ThreadLocksTest"},
		{"client", "locks.LockContractTest"},
		{"shedlock", "LockdLockProviderTest"},
		{"spring", "LockdAutoConfigurationTest"},
		{"spring", "LockdLockRegistryTest"},
	} {
		t.Run(of.tests, func(t *testing.T) {
			t.Parallel()
			target := filepath.Join(sdk, of.module, "target")
			classes := strings.Join([]string{
				filepath.Join(sdk, "client/target/lockd-client.jar"), filepath.Join(sdk, "client/target/lib/*"),
				filepath.Join(target, "lockd-"+of.module+".jar"), filepath.Join(target, "test-classes"),
				filepath.Join(target, "lib/*"),
			}, ":")
			runJava(t, java, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dlockd.hostile="+servers,
				"-Dlockd.scripts="+scripts, "-cp", classes, "org.junit.platform.console.ConsoleLauncher",
				"execute", "--select-class", "io.lockd."+of.module+"."+of.tests, "--fail-if-no-tests", "--disable-banner",
				"--disable-ansi-colors", "--details=tree")
		})
	}
}

// serve starts servers, until the test is over, and returns them as NAME=ADDRESS,...
func serve(t *testing.T, start func(context.Context) (map[string]string, func(), error)) string {
	t.Helper()
	addresses, stop, err := start(t.Context())
	harness.Must(t, err)
	t.Cleanup(stop)
	var all []string
	for name, address := range addresses {
		all = append(all, name+"="+address)
	}
	return strings.Join(all, ",")
}

// TestTheJarHasNothingThatMeetsOthers looks for classes that the program may have, too, in another version.
func TestTheJarHasNothingThatMeetsOthers(t *testing.T) {
	t.Parallel()
	jar := filepath.Join(buildJava(t), "client/target/lockd-client.jar")
	for line := range strings.Lines(runJava(t, "jar", "--list", "--file", jar)) {
		name := strings.TrimSpace(line)
		if strings.HasSuffix(name, ".class") && !strings.HasPrefix(name, "io/lockd/client/") {
			t.Errorf("the jar has %s", name)
		}
	}
	if text := runJava(t, "jar", "--describe-module", "--file", jar); !strings.Contains(text, "io.lockd.client") {
		t.Errorf("the jar is no module io.lockd.client: %s", text)
	}
}

// A thread that waits while it holds a monitor pins the carrier of a virtual thread.
func TestTheJavaSDKHasNoMonitors(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(root, "sdk/java/client/src/main")
	harness.Must(t, filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "synchronized") {
			t.Errorf("%s has synchronized: use a lock of java.util.concurrent", path)
		}
		return err
	}))
}

// buildJava makes the SDK and returns the directory with its modules.
func buildJava(t *testing.T) string {
	t.Helper()
	modules, err := harness.BuildJava()
	harness.Must(t, err)
	return modules
}

// runJava runs a program of Java and returns what it wrote.
func runJava(t *testing.T, name string, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), javaTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), "LOCKD_BIN="+lockdBin, "REDIS_BIN=redis-server")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}
