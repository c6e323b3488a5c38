package proctest

import "testing"

// Other packages of tests may have hundreds of ports in a row.
func TestAFreePortIsFoundBehindManyThatAreTaken(t *testing.T) {
	from := next.Load()
	for i := range 500 {
		ours(firstPort + (int(from)+i)%ports)
	}
	next.Store(from)
	FreeAddr(t)
}
