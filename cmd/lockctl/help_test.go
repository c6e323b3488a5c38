package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/lockd-io/lockd/test/harness"
)

var word = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)

// TestEachCommandHasExamplesThatItTakes reads them as the command would.
func TestEachCommandHasExamplesThatItTakes(t *testing.T) {
	for _, of := range newRoot(&options{}).Commands() {
		lines := 0
		for line := range strings.Lines(of.Example) {
			lines++
			line, _, _ = strings.Cut(line, " #")
			var args []string
			for _, arg := range word.FindAllString(line, -1) {
				args = append(args, strings.Trim(arg, `'"`))
			}
			cmd, rest, err := newRoot(&options{}).Find(args[1:])
			harness.Must(t, err)
			if cmd.Name() != of.Name() {
				t.Errorf("an example of %s is of %s", of.Name(), cmd.Name())
			}
			harness.Must(t, cmd.ParseFlags(rest))
			if err := cmd.ValidateArgs(cmd.Flags().Args()); err != nil {
				t.Errorf("%s: %v", line, err)
			}
		}
		if lines == 0 {
			t.Errorf("%s has no example", of.Name())
		}
	}
}

// TestNamesAreCheckedBeforeAnybodyIsAsked has no server.
func TestNamesAreCheckedBeforeAnybodyIsAsked(t *testing.T) {
	for _, args := range [][]string{
		{"exec", "NAME", "--", "true"},
		{"acquire", "NAME", "--lease", "1s"},
		{"extend", "NAME", "id", "--lease", "1s"},
		{"release", "NAME", "id"},
		{"limit", "NAME"},
		{"inspect", "NAME"},
		{"waiters", "NAME"},
		{"watch", "NAME"},
		{"history", "NAME"},
		{"unlock", "NAME", "--force", "--reason", "stuck"},
		{"can", "lock", "NAME"},
	} {
		for _, name := range []string{"", "a\nb", "\x1b[2J"} {
			with := []string{"--addr", "127.0.0.1:1", "--admin-addr", "127.0.0.1:1"}
			for _, arg := range args {
				with = append(with, strings.ReplaceAll(arg, "NAME", name))
			}
			err := errorOf(t, with...)
			if exitCode(err) != exitUsage || reason(err) != reasonName {
				t.Errorf("%q: got %v", with, err)
			}
		}
	}
}

// TestShellsAreOfferedNamesThatTheyCanComplete holds some names.
func TestShellsAreOfferedNamesThatTheyCanComplete(t *testing.T) {
	for _, name := range []string{"complete/a", "complete/b", "complete/$(touch x)", "complete/`x`", "complete/ä b"} {
		if r := call(t, "acquire", name, "--lease", "1m"); r.code != 0 {
			t.Fatal(r.stderr)
		}
	}
	const none, files = ":4", ":0" // what a shell completes besides
	for _, c := range []struct{ typed, want string }{
		{"inspect complete/", "complete/a complete/b " + none},
		{"inspect complete/b", "complete/b " + none},
		{"can lock complete/a", "complete/a " + none},
		{"can l", "drain examine force limit lock look " + none},
		{"exec complete/", "complete/a complete/b " + none},
		{"exec x -- l", files},
		{"acquire x --kind r", "exclusive fair read write semaphore " + none},
		{"ls --output j", "text json " + none},
		{"inspect complete/a c", none},
		{"status c", none},
		{"inspect --addr 127.0.0.1:1 complete/", none},
	} {
		r := call(t, append([]string{"__complete"}, strings.Fields(c.typed)...)...)
		if got := strings.Join(strings.Fields(r.stdout), " "); got != c.want {
			t.Errorf("%s: %s, want %s (%s)", c.typed, got, c.want, r.stderr)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if r := call(t, "completion", shell); r.code != 0 || !strings.Contains(r.stdout, "lockctl") {
			t.Errorf("%s: %s", shell, r.stderr)
		}
	}
}
