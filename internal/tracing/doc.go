// Package tracing sends spans to a collector of OpenTelemetry. Package broker makes those of requests for locks, and
// otelgrpc those of unary calls.
//
// # What it promises
//
// Without a variable of OpenTelemetry that names a collector there is no Provider, and nothing of this package runs.
// With one, spans are sent in the background: a collector that is away or slow costs spans, and no request waits for
// it.
//
// # What it does not promise
//
// Every span arrives: what does not fit into the queue of the exporter is dropped. The variables say what is sampled.
package tracing
