package main

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	grpccodes "google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protopath"
	"google.golang.org/protobuf/reflect/protorange"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/lockd-io/lockd/client"
)

// textReasons are the reasons that the server gives for a bad text, by the field that it is in.
var textReasons = map[protoreflect.Name]string{
	"name": "INVALID_NAME", "prefix": "INVALID_NAME", "annotation": "INVALID_ANNOTATION", "client_name": "INVALID_CLIENT",
	"lease_id": "INVALID_LEASE_ID", "page_token": "INVALID_PAGE",
}

// checkTexts refuses a request with a text that is not UTF-8, before anything of it is sent: no message can have such a
// text, and gRPC would say so only after it has begun the call.
func checkTexts(request any) error {
	m, ok := request.(proto.Message)
	if !ok {
		return nil
	}
	return protorange.Range(m.ProtoReflect(), func(p protopath.Values) error {
		at := p.Index(-1)
		text, is := at.Value.Interface().(string)
		if !is || utf8.ValidString(text) {
			return nil
		}
		var field protoreflect.Name
		for _, step := range p.Path {
			if step.Kind() == protopath.FieldAccessStep {
				field = step.FieldDescriptor().Name()
			}
		}
		return badText(field)
	})
}

func badText(field protoreflect.Name) error {
	reason, known := textReasons[field]
	if !known {
		reason = "INVALID_MESSAGE"
	}
	what := strings.ReplaceAll(string(field), "_", " ")
	st := status.New(grpccodes.InvalidArgument, fmt.Sprintf("the %s is not valid UTF-8", what))
	if detailed, err := st.WithDetails(&errdetails.ErrorInfo{Reason: reason, Domain: "lockd.io"}); err == nil {
		st = detailed
	}
	return client.FromStatus(st.Err())
}
