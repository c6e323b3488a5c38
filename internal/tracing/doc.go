// Package tracing makes the spans of requests for locks, and sends them to a collector of OpenTelemetry. All spans of
// lockd but those of unary calls, which otelgrpc makes, are made here.
//
// # What it promises
//
// Without a variable of OpenTelemetry that names a collector there is no Provider, and nothing of this package runs.
// With one, spans are sent in the background: a collector that is away or slow costs spans, and no request waits for
// it.
//
// # What it does not promise
//
// Every span arrives: what does not fit into the queue of the exporter is dropped. What is sampled is for the variables
// to say.
package tracing
