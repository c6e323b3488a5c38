package grpcapi

import "google.golang.org/protobuf/proto"

const (
	defaultPage = 100
	maxPage     = 1000
	// pageBytes bounds an answer with many things: a client of gRPC refuses 4 MiB and more unless it is told otherwise.
	pageBytes = 3 << 20
)

// pageSize is a usable page size.
func pageSize(n uint32) int {
	if n == 0 {
		return defaultPage
	}
	return int(min(n, maxPage))
}

// fitting is the first part of a page that has no more than so many bytes. It has one thing at least, so that a list
// goes on.
func fitting[M proto.Message](page []M, bytes int) []M {
	for i, m := range page {
		if bytes -= proto.Size(m); bytes < 0 && i > 0 {
			return page[:i]
		}
	}
	return page
}
