// Package openapi has the description of lockd's HTTP/JSON for programs, which is made of the protos.
package openapi

import _ "embed" // of the file

// JSON is in the format of OpenAPI 2.
//
//go:embed lockd.swagger.json
var JSON []byte
