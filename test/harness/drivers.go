package harness

import (
	"os"
	"path/filepath"
	"testing"
)

// JavaDriver is the command that runs the driver of the Java SDK, on the jar that users get. What drivers are is in
// README.md of test/conformance.
func JavaDriver(t testing.TB) []string {
	t.Helper()
	modules, err := BuildJava()
	Must(t, err)
	at := filepath.Join(modules, "client/target")
	return []string{
		"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp",
		filepath.Join(at, "lockd-client.jar") + ":" + filepath.Join(at, "test-classes"), "io.lockd.client.Driver",
	}
}

// PythonDriver is that of the Python SDK over a directory with its sources, "" for those of this checkout, in a venv
// that scripts/ensure pythonsdk makes.
func PythonDriver(t testing.TB, sources string) []string {
	t.Helper()
	venv := filepath.Join(root(), ".cache/pythonsdk/newest/bin/python")
	if _, err := os.Stat(venv); err != nil {
		t.Fatalf("the runtimes are missing; run: scripts/ensure pythonsdk (%v)", err)
	}
	if sources == "" {
		sources = filepath.Join(root(), "sdk/python/src")
	}
	return []string{
		"env", "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=" + sources + ":" + filepath.Join(root(), "api/gen/python"), venv,
		filepath.Join(root(), "sdk/python/tests/driver.py"),
	}
}
