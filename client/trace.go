package client

import (
	"context"

	"go.opentelemetry.io/otel/trace"
)

// traceparent is the span that asks for a lock, as the header of W3C has it, for a server that traces; empty without a
// span.
func traceparent(ctx context.Context) string {
	sc := trace.SpanContextFromContext(ctx)
	if !sc.IsValid() {
		return ""
	}
	const hex = "0123456789abcdef"
	id, span, flags := sc.TraceID(), sc.SpanID(), sc.TraceFlags()&trace.FlagsSampled
	text := make([]byte, 0, len("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"))
	text = append(text, "00-"...)
	text = append(text, id.String()...)
	text = append(text, '-')
	text = append(text, span.String()...)
	return string(append(text, '-', '0', hex[flags]))
}
