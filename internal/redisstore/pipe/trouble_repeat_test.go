package pipe

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"
)

// As long as the configuration is wrong the error is repeated every minute, and not more often.
func TestAWrongConfigurationIsToldEveryMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		core, logs := observer.New(zapcore.ErrorLevel)
		tr := &Trouble{log: zap.New(core)}
		attempts := func(d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(lastRedial) {
				_ = tr.note(io.EOF)
			}
		}
		attempts(troubleAfter)
		if logs.Len() != 0 {
			t.Errorf("told %d times within %v, want that it may heal", logs.Len(), troubleAfter)
		}
		attempts(10*time.Minute - time.Second)
		if logs.Len() != 10 {
			t.Errorf("told %d times in ten minutes, want 10", logs.Len())
		}
		tr.over()
		attempts(troubleAfter)
		if logs.Len() != 10 {
			t.Error("told at once after it had healed")
		}
	})
}
