package browser

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/client"
	"github.com/lockd-io/lockd/test/harness"
)

var pictures = flag.String("pictures", "", "write pictures of all pages into this `directory`")

func TestPictures(t *testing.T) {
	if *pictures == "" {
		t.Skip("make pictures writes pictures")
	}
	w := start(t)
	harness.Must(t, os.MkdirAll(*pictures, 0o755))
	w.open(w.url + "/login")
	w.pictured("login")
	w.login(opsToken)
	w.open(w.url + "/")
	w.pictured("locks-empty")
	w.open(w.url + "/blockers")
	w.pictured("blockers-empty")
	w.busy()
	for name, path := range w.pages() {
		if name == "lock" {
			path = "/lock?name=invoice:2026-00"
		}
		w.open(w.url + path)
		switch name {
		case "health":
			w.shows("checks found")
		case "blockers":
			w.shows("behind it")
		}
		w.isLive()
		w.pictured(name)
	}
	w.open(w.url + "/lock?name=nothing")
	w.pictured("lock-empty")
	w.open(w.url + "/nowhere")
	w.pictured("problem")
	w.open(w.url + "/")
	w.isLive()
	for _, d := range w.replicas {
		d.Kill()
	}
	w.await("it says so", "state.textContent.includes('does not answer')")
	w.pictured("lost")
}

// pictured writes pictures of the page that is open.
func (w *world) pictured(name string) {
	w.t.Helper()
	for _, width := range []int{1440, 360} {
		for _, scheme := range []string{"light", "dark"} {
			w.look(width, scheme)
			w.picture(filepath.Join(*pictures, fmt.Sprintf("%s-%d-%s.png", name, width, scheme)))
		}
	}
}

// busy has locks of all kinds, and those who wait for them.
func (w *world) busy() {
	w.t.Helper()
	programs := make([]*client.Client, 8)
	for i, name := range []string{
		"billing-7f9c", "billing-2b1d", "report-1", "deploy <b>prod</b>",
		"etl-nightly-with-a-rather-long-name-of-a-pod-6d5f8", "web-1", "web-2", "evil\u202egnp",
	} {
		programs[i] = w.client(name, i%2)
	}
	for i := range 14 {
		w.lock(programs[i%3], fmt.Sprintf("invoice:2026-%02d", i), client.Annotation("monthly run of tenant 17"))
	}
	w.lock(programs[4], "etl:"+strings.Repeat("warehouse-", 12)+"load")
	w.lock(programs[3], "deploy:prod")
	w.lock(programs[7], "safe\u202egnp.exe")
	for _, wait := range []struct {
		program int
		name    string
	}{
		{1, "invoice:2026-00"},
		{2, "invoice:2026-00"},
		{4, "invoice:2026-00"},
		{5, "invoice:2026-00"},
		{3, "invoice:2026-01"},
		{5, "deploy:prod"},
		{6, "deploy:prod"},
		{0, "safe\u202egnp.exe"},
		{7, "invoice:2026-00"}, // they wait for each other
	} {
		w.waits(programs[wait.program], wait.name)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil { // until all of them wait
		waiting := 0
		for _, d := range w.replicas {
			_, body := d.Get("/metrics")
			_, after, _ := strings.Cut(body, "\nlockd_waiters ")
			n := 0
			_, _ = fmt.Sscan(after, &n) // 0 if it is not there
			waiting += n
		}
		if waiting >= 9 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	// A history worth a look.
	c := w.client("nightly", 0)
	for range 3 {
		harness.Must(w.t, w.lock(c, "invoice:2026-13b").Unlock(w.t.Context()))
	}
}
