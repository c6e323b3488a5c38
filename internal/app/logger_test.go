package app

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/config"
)

// logged is what a logger of this form writes.
func logged(t *testing.T, cfg config.Log, write func(log *zap.Logger)) string {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	must(t, err)
	defer func() { _ = f.Close() }()
	write(NewLogger(cfg, f))
	return textOf(t, f.Name())
}

// hiddenAndShown writes a debug and an info line.
func hiddenAndShown(log *zap.Logger) {
	log.Debug("hidden")
	log.Info("shown", zap.Duration("took", time.Second))
}

func TestALogThatIsNoTerminalIsJSON(t *testing.T) {
	text := logged(t, config.Log{Level: "info", Format: config.LogAuto}, hiddenAndShown)
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
	text := logged(t, config.Log{Level: "debug", Format: config.LogConsole}, hiddenAndShown)
	if strings.HasPrefix(text, "{") || !strings.Contains(text, "hidden") || !strings.Contains(text, "shown") {
		t.Errorf("got %q", text)
	}
}
