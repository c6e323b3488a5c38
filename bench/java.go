package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// javaDir is where the program of Java is.
const javaDir = "java"

// redissonName is the peer with a thread for each caller, redissonVirtual the one with virtual threads.
const redissonName, redissonVirtual = "Redisson", "Redisson, virtual threads"

// javaWarmUp is how long a JVM that has just started is left to become fast. Its compilers are still busy after half of
// that.
const javaWarmUp = 10 * time.Second

// firstVirtual is the oldest Java with virtual threads.
const firstVirtual = 21

var errNoVirtual = errors.New("no Java of 21 or newer is in /usr/lib/jvm: virtual threads are left out")

// virtualJava finds a Java with virtual threads where distributions put it.
func virtualJava() (string, error) {
	homes, err := filepath.Glob("/usr/lib/jvm/*")
	if err != nil {
		return "", err
	}
	for _, home := range homes {
		release, err := os.ReadFile(filepath.Join(home, "release")) //nolint:gosec // of a JDK
		if err != nil {
			continue // it is none, or another name of one
		}
		_, version, _ := strings.Cut(string(release), `JAVA_VERSION="`)
		version, _, _ = strings.Cut(version, `"`)
		major, _, _ := strings.Cut(version, ".")
		if n, err := strconv.Atoi(major); err == nil && n >= firstVirtual {
			return filepath.Join(home, "bin/java"), nil
		}
	}
	return "", errNoVirtual
}

// startJava starts the program with a thread for each caller.
func startJava(ctx context.Context, peer, addr string) (*told, error) {
	return startJVM(ctx, "java", nil, peer, addr)
}

// startVirtual starts it with a virtual thread for each.
func startVirtual(ctx context.Context, peer, addr string) (*told, error) {
	java, err := virtualJava()
	if err != nil {
		return nil, err
	}
	return startJVM(ctx, java, []string{"-Dthreads=virtual"}, peer, addr)
}

func startJVM(ctx context.Context, java string, options []string, peer, addr string) (*told, error) {
	if err := buildJava(ctx); err != nil {
		return nil, err
	}
	target := filepath.Join(javaDir, "pairs/target")
	classes := filepath.Join(target, "classes") + ":" + filepath.Join(target, "lib", "*")
	return startTold(javaWarmUp, nil, java, append(options, "-cp", classes, "io.lockd.bench.Pairs", peer, addr)...)
}

// javaBuilt says that the program of Java was made by this process.
var javaBuilt bool

func buildJava(ctx context.Context) error {
	if javaBuilt {
		return nil
	}
	for _, program := range []string{"java", "mvn"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w; it comes with scripts/ensure java", err)
		}
	}
	build := exec.CommandContext(ctx, "mvn", "--quiet", "--batch-mode", "--projects", "pairs", "--also-make", "package")
	build.Dir = javaDir
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("mvn package: %w\n%s", err, out)
	}
	javaBuilt = true
	return nil
}

// startRedisson returns nil and why if there is no Java or no Maven.
func startRedisson(ctx context.Context, e env) (t *told, missing string, err error) {
	if t, err = startJava(ctx, "redisson", e.redis.addr); errors.Is(err, exec.ErrNotFound) {
		return nil, err.Error(), nil
	}
	return t, "", err
}

// redissonPeer is Redisson as it is compared. If it is not there its name says why.
func redissonPeer(t *told, missing string) peer {
	if t == nil {
		return peer{name: redissonName + ": " + missing, kind: java}
	}
	return peer{redissonName, java, 4, t.open}
}
