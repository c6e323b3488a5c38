//go:build linux && (amd64 || arm64) && !race

package rawconn

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// Somebody may make the socket wait, through a copy of it. The program must go on all the same.
func TestACallNeverWaits(t *testing.T) {
	here, _ := pipe(t)
	f, err := here.Conn.(*net.TCPConn).File()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	_ = f.Fd() // this makes it wait
	for range 2 * runtime.GOMAXPROCS(0) {
		go func() { _, _ = here.Read(make([]byte, 1)) }()      // until the end
		go func() { _, _ = here.Write(make([]byte, 1<<20)) }() // as above
	}
	time.Sleep(20 * time.Millisecond)
	collected := make(chan struct{})
	go func() {
		runtime.GC()
		close(collected)
	}()
	select {
	case <-collected:
	case <-time.After(20 * time.Second):
		t.Error("the program stands still")
	}
}
