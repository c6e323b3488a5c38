package sdk

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/test/harness"
)

// javaTime bounds what is run of Java, and its build, which may have to fetch what it needs.
const javaTime = 30 * time.Minute

// TestJava runs the tests of the Java SDK, and of what stands on it, on the jars that users get.
func TestJava(t *testing.T) {
	t.Parallel()
	sdk := filepath.Join(buildJava(t), "sdk/java")
	// Each class has a JVM of its own, so that they run side by side.
	for _, of := range []struct{ module, tests string }{
		{"client", "HandleTest"},
		{"client", "LossTest"},
		{"client", "WaitTest"},
		{"client", "ElectionTest"},
		{"client", "locks.ThreadLocksTest"},
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
			runJava(t, "java", "-XX:TieredStopAtLevel=1", "-cp", classes, "org.junit.platform.console.ConsoleLauncher",
				"execute", "--select-class", "io.lockd."+of.module+"."+of.tests, "--fail-if-no-tests", "--disable-banner",
				"--disable-ansi-colors", "--details=tree")
		})
	}
}

// TestTheJarHasNothingThatMeetsOthers looks for classes that the program may have, too, in another version.
func TestTheJarHasNothingThatMeetsOthers(t *testing.T) {
	t.Parallel()
	jar := filepath.Join(buildJava(t), "sdk/java/client/target/lockd-client.jar")
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

// allOfJava has Maven make the examples with the SDK at hand.
const allOfJava = `<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>test</groupId>
  <artifactId>all</artifactId>
  <version>1</version>
  <packaging>pom</packaging>
  <modules>
    <module>sdk/java</module>
    <module>examples/java</module>
    <module>examples/spring</module>
  </modules>
</project>
`

// buildJava has Maven make the SDK and the examples in a copy of their sources, when one of them has changed.
func buildJava(t *testing.T) (tree string) {
	t.Helper()
	sources := []string{"api/proto", "sdk/java", "examples/java", "examples/spring"}
	tree = filepath.Join("target", "java")
	harness.Must(t, harness.BuildOnce(tree, root, sources, func() error {
		for _, dir := range sources {
			to := filepath.Join(tree, dir)
			if err := errors.Join(os.RemoveAll(to), os.CopyFS(to, os.DirFS(filepath.Join(root, dir)))); err != nil {
				return err
			}
		}
		harness.Must(t, os.WriteFile(filepath.Join(tree, "pom.xml"), []byte(allOfJava), 0o600))
		runJava(t, "mvn", "--quiet", "--batch-mode", "--file", tree, "package")
		return nil
	}))
	return tree
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
