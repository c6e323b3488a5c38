// Package httpjson has tests of a whole lockd that is used by HTTP/JSON, well and badly.
package httpjson
