package main

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockd-io/lockd/client"
)

// textReasons are the reasons that the server gives for a bad text, by the field that it is in.
var textReasons = map[protoreflect.Name]string{
	"name": "INVALID_NAME", "prefix": "INVALID_NAME", "annotation": "INVALID_ANNOTATION", "client_name": "INVALID_CLIENT",
	"lease_id": "INVALID_LEASE_ID",
}

// checkTexts refuses a request with a text that is not UTF-8, before anything of it is sent: no message can have such a
// text, and gRPC would say so only after it has begun the call. Such requests have no messages inside with texts.
func checkTexts(request any) error {
	m, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	var bad protoreflect.Name
	m.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		if text, ok := v.Interface().(string); ok && !utf8.ValidString(text) {
			bad = f.Name()
		}
		return bad == ""
	})
	if bad == "" {
		return nil
	}
	what := strings.ReplaceAll(string(bad), "_", " ")
	st := status.New(grpccodes.InvalidArgument, fmt.Sprintf("the %s is not valid UTF-8", what))
	reason := cmp.Or(textReasons[bad], "INVALID_MESSAGE")
	if detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "lockd.io"}); err == nil {
		st = detailed
	}
	return client.FromStatus(st.Err())
}
