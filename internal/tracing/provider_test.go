package tracing

import (
	"errors"
	"testing"
)

func TestWhatTheVariablesAskFor(t *testing.T) {
	for _, row := range []struct {
		vars map[string]string
		on   bool
		err  error
	}{
		{nil, false, nil},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, true, nil},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c:4317"}, true, nil},
		{map[string]string{"OTEL_TRACES_EXPORTER": "otlp"}, true, nil},
		{map[string]string{"OTEL_SERVICE_NAME": "locks"}, false, nil},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, false, nil},
		{map[string]string{"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4317"}, false, nil},
		{map[string]string{"OTEL_TRACES_EXPORTER": "console"}, false, ErrConfig},
		{
			map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:4318", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"},
			false, ErrConfig,
		},
	} {
		on, err := wanted(func(name string) string { return row.vars[name] })
		if on != row.on || !errors.Is(err, row.err) {
			t.Errorf("%v: got %v, %v", row.vars, on, err)
		}
	}
}
