package httpapi

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"

	"github.com/lockd-io/lockd/internal/limits"
)

// strict refuses parameters that a call does not have. The gateway would pass over them.
type strict struct{ runtime.DefaultQueryParser }

// beStrict sets strict in the gateway, which has one parser for the whole process.
var beStrict = sync.OnceFunc(func() { runtime.SetQueryParameterParser(&strict{})(nil) })

// Parse implements runtime.QueryParameterParser.
func (s *strict) Parse(m proto.Message, given url.Values, filter *utilities.DoubleArray) error {
	fields := m.ProtoReflect().Descriptor().Fields()
	for name := range given {
		if fields.ByJSONName(name) == nil && fields.ByTextName(name) == nil {
			return fmt.Errorf("there is no parameter %q", name)
		}
	}
	return s.DefaultQueryParser.Parse(m, given, filter)
}

// strictJSON refuses what comes behind a request in its body. The gateway would pass over it.
type strictJSON struct{ runtime.JSONPb }

// NewDecoder implements runtime.Marshaler. It decodes one value, which is all that there is.
func (j *strictJSON) NewDecoder(from io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(to any) error {
		text, err := io.ReadAll(from)
		if err != nil {
			return err
		}
		if len(bytes.TrimSpace(text)) == 0 {
			return io.EOF // which the gateway takes for a request without fields
		}
		if m, ok := to.(proto.Message); ok {
			return j.UnmarshalOptions.Unmarshal(text, m)
		}
		return j.Unmarshal(text, to)
	})
}

// freeHeader is how many bytes of header the price of a call includes: what clients send by themselves.
const freeHeader = 1 << 10

// priceOfHeader is what the header of a request costs, with its query, if it is larger than usual.
func priceOfHeader(r *http.Request) time.Duration {
	n := len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			n += len(name) + len(value) + len(": \r\n")
		}
	}
	return time.Duration(max(0, n-freeHeader)) * limits.HeadByte
}

// priceOfBody is what a body of n bytes costs.
func priceOfBody(r *http.Request, n int) time.Duration {
	perByte := limits.BodyByte
	if r.ContentLength < 0 {
		perByte += limits.Chunked
	}
	return time.Duration(n) * perByte
}

// brief shortens a client's text that an answer repeats.
func brief(text string) string {
	const most = 300
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
