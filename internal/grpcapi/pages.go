package grpcapi

import (
	"google.golang.org/protobuf/proto"
)

const (
	defaultPage = 100
	maxPage     = 1000
	// pageBytes bounds an answer with many things: a client of gRPC refuses 4 MiB and more unless it is told otherwise.
	pageBytes = 3 << 20
)

// pageSize is n, but at most maxPage; defaultPage if n is 0.
func pageSize(n uint32) int {
	if n == 0 {
		return defaultPage
	}
	return int(min(n, maxPage))
}

// listed translates the first elements of all: as many as fit into bytes, but one at least, so that a list goes on.
// whole says whether these are all.
func listed[T any, M proto.Message](all []T, bytes int, to func(T) M) (page []M, whole bool) {
	for _, t := range all {
		m := to(t)
		if bytes -= proto.Size(m); bytes < 0 && len(page) > 0 {
			return page, false
		}
		page = append(page, m)
	}
	return page, true
}
