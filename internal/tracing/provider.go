package tracing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/zap"

	"github.com/lockd-io/lockd/internal/observe"
)

// Config says whether and as whom to trace.
type Config struct {
	// Getenv reads a variable. The libraries read further ones of the process.
	Getenv func(name string) string
	// Replica and Version are told with each span.
	Replica, Version string
}

// ErrConfig says that the variables name something that lockd does not have.
var ErrConfig = errors.New("the tracing that the variables OTEL_… ask for is not there")

// Provider sends spans to a collector until its Shutdown, which sends what was not sent yet.
type Provider = sdktrace.TracerProvider

// wanted says whether the variables ask for traces.
func wanted(getenv func(string) string) (bool, error) {
	exporter := getenv("OTEL_TRACES_EXPORTER")
	switch {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("%w: OTEL_TRACES_EXPORTER is %q, and can be otlp or none", ErrConfig, exporter)
	case exporter == "" && getenv("OTEL_EXPORTER_OTLP_ENDPOINT") == "" &&
		getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") == "":
		return false, nil
	}
	protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "grpc")
	if protocol != "grpc" {
		return false, fmt.Errorf("%w: OTEL_EXPORTER_OTLP_PROTOCOL is %q, and can be grpc", ErrConfig, protocol)
	}
	return true, nil
}

// Start begins to trace if the variables ask for it, else there is no Provider. The collector need not be there.
func Start(ctx context.Context, cfg Config, log *zap.Logger) (*Provider, error) {
	if on, err := wanted(cfg.Getenv); !on {
		return nil, err
	}
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("trace to a collector: %w", err)
	}
	// What the variables say of the resource counts more.
	own := resource.NewSchemaless(
		attribute.String("service.name", "lockd"), attribute.String("service.version", cfg.Version),
		attribute.String("service.instance.id", cfg.Replica))
	named, err := resource.New(ctx, resource.WithFromEnv(), resource.WithTelemetrySDK())
	if err == nil {
		named, err = resource.Merge(own, named)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("trace to a collector: %w", err), exporter.Shutdown(ctx))
	}
	complainTo(log.Named("tracing"))
	return sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(named)), nil
}

// complainTo has the libraries of OpenTelemetry log their errors. They have one such setting for the whole process.
func complainTo(log *zap.Logger) {
	var logLimit observe.LogLimiter
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		logLimit.Warn(log, "spans cannot be sent", zap.Error(err))
	}))
}
