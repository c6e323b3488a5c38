package app

import (
	"os"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/lockd-io/lockd/internal/config"
)

// NewLogger logs to a file, usually os.Stderr, in the form of a valid configuration.
func NewLogger(cfg config.Config, to *os.File) *zap.Logger {
	level, err := zapcore.ParseLevel(cfg.Log.Level)
	if err != nil {
		level = zapcore.InfoLevel
	}
	enc := zap.NewProductionEncoderConfig()
	enc.TimeKey = "time"
	enc.EncodeTime = zapcore.RFC3339NanoTimeEncoder
	enc.EncodeDuration = zapcore.StringDurationEncoder
	form := zapcore.NewJSONEncoder(enc)
	if cfg.Log.Format == "console" || cfg.Log.Format == "auto" && isTerminal(to) {
		enc.EncodeTime = zapcore.TimeEncoderOfLayout("15:04:05.000")
		enc.EncodeLevel = zapcore.CapitalColorLevelEncoder
		form = zapcore.NewConsoleEncoder(enc)
	}
	core := zapcore.NewCore(newEscaping(form), zapcore.Lock(to), level)
	return zap.New(core, zap.AddStacktrace(zapcore.DPanicLevel))
}

func isTerminal(f *os.File) bool {
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
