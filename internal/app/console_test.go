package app

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestTheConsoleIsServedWhereItIsAskedFor(t *testing.T) {
	cfg := testConfig()
	if a, stop := start(t, cfg); a.ConsoleURL() != "" {
		t.Errorf("it is at %s without being asked for", a.ConsoleURL())
	} else {
		must(t, stop())
	}
	cfg.ConsoleListen, cfg.Console.Path = "127.0.0.1:0", "/locks"
	a, stop := start(t, cfg)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	resp, err := client.Get(a.ConsoleURL())
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `href="/locks/sessions"`) {
		t.Errorf("got %s: %s", resp.Status, body)
	}
	// A page that is open does not hold up the stop.
	open, err := client.Get(a.ConsoleURL() + "live/")
	must(t, err)
	defer func() { _ = open.Body.Close() }()
	if _, err = open.Body.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	must(t, stop())
	if took := time.Since(began); took > closeTimeout {
		t.Errorf("the stop took %v", took)
	}
}
