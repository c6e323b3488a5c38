package broker

import (
	"os"
	"reflect"
	"testing"
)

// TestMain checks after all tests that nobody wrote to what all leases share.
func TestMain(m *testing.M) {
	code := m.Run()
	if !reflect.ValueOf(*nothing).IsZero() {
		println("a lease wrote to what is shared by those without extras")
		code = 1
	}
	os.Exit(code)
}
