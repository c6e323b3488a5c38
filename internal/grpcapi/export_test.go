package grpcapi

// ToStatus is toStatus for the tests of the table.
func ToStatus(err error) error { return toStatus(err) }

// TableErrors are the errors of the table.
func TableErrors() []error {
	var errs []error
	for _, row := range table {
		errs = append(errs, row.err)
	}
	return errs
}

// ToAcquire and FromEvent are the translations, for tests of what no broker does at will.
var (
	ToAcquire = toAcquire
	FromEvent = fromEvent
)

// NewFrameCodec is the codec that the server reads with.
var NewFrameCodec = newFrameCodec
