package app

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/config"
	"github.com/lockd-io/lockd/internal/observe"
)

// logged is what a logger of this form writes.
func logged(t *testing.T, level, format string, write func(log *zap.Logger)) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	defer func() { _ = f.Close() }()
	cfg := config.Default()
	cfg.Log.Level, cfg.Log.Format = level, format
	write(NewLogger(cfg, f))
	return textOf(t, f.Name())
}

// hiddenAndShown writes a debug and an info line.
func hiddenAndShown(log *zap.Logger) {
	log.Debug("hidden")
	log.Info("shown", zap.Duration("took", time.Second))
}

func TestALogThatIsNoTerminalIsJSON(t *testing.T) {
	text := logged(t, "info", "auto", hiddenAndShown)
	var line struct{ Level, Time, Msg, Took string }
	if err := json.Unmarshal([]byte(text), &line); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	if _, err := time.Parse(time.RFC3339Nano, line.Time); err != nil || line.Level != "info" || line.Msg != "shown" ||
		line.Took != "1s" {
		t.Errorf("got %+v, %v", line, err)
	}
}

func TestALogForEyes(t *testing.T) {
	text := logged(t, "debug", "console", hiddenAndShown)
	if strings.HasPrefix(text, "{") || !strings.Contains(text, "hidden") || !strings.Contains(text, "shown") {
		t.Errorf("got %q", text)
	}
}

// nasty is what a client may call itself: a forged line, a window title, colors, C1's CSI, DEL, reordered text, an
// invisible tag, and bytes that are no text.
const nasty = "job\n{\"level\":\"error\"}\r\x1b]0;title\x07\x1b[31m\u009b2J\x7f\u202egnp.exe\u2028\U000e0041\xff\xfe\x00end"

func TestNoTextOfAClientReachesATerminalRaw(t *testing.T) {
	for _, format := range []string{"json", "console"} {
		t.Run(format, func(t *testing.T) {
			text := logged(t, "debug", format, func(log *zap.Logger) {
				log = log.With(zap.String(observe.KeyPeer, nasty))
				log.Debug("granted", zap.String(observe.KeyName, nasty), zap.Strings(observe.KeyNames, []string{nasty}),
					zap.NamedError(observe.KeyCause, errors.New(nasty)), zap.String(observe.KeyAnnotation, nasty))
				log.Named("ops").Warn("http: " + nasty)
			})
			checkHarmless(t, text, format)
		})
	}
}

func checkHarmless(t *testing.T, text, format string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("got %d lines, want 2: %q", len(lines), text)
	}
	for _, line := range lines {
		if format == "console" { // our own colors
			line = strings.NewReplacer("\x1b[35m", "", "\x1b[33m", "", "\x1b[0m", "").Replace(line)
		}
		for _, r := range line {
			if unicode.IsControl(r) && (r != '\t' || format == "json") || unicode.Is(unicode.Cf, r) || r == '\u2028' {
				t.Errorf("%U is written raw: %q", r, line)
			}
		}
		if format == "json" && !json.Valid([]byte(line)) {
			t.Errorf("no JSON: %q", line)
		}
	}
	if !strings.Contains(lines[0], "title") || !strings.Contains(lines[0], "end") {
		t.Errorf("the text is gone: %q", lines[0])
	}
}

func TestTextOfOrdinaryLanguagesIsLeftAlone(t *testing.T) {
	for _, text := range []string{"Müller", "锁", "قفل", "🔒"} {
		if got := observe.Escape(text, observe.Harmful); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
