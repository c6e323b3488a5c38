package console

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestACookieIsGoodForItsTime(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(strings.Repeat("k", keyBytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	seals := map[string]*seal{}
	for name, file := range map[string]string{"one": file, "same key": file, "own key": ""} {
		s, err := newSeal(file)
		if err != nil {
			t.Fatal(err)
		}
		seals[name] = s
	}
	now := time.Now()
	token := strings.Repeat("t", tokenBytes)
	cookie := seals["one"].close(token, now.Add(time.Minute))
	if n := len(cookie); n > 4000 {
		t.Errorf("a cookie has %d bytes", n)
	}
	// A few of its letters in a row are there by chance in one cookie of a hundred.
	plain := strings.Contains(cookie, token[:16]) || strings.Contains(cookie, strings.Repeat("dHR0", 4)) // in base64
	if plain || cookie == seals["one"].close(token, now.Add(time.Minute)) {
		t.Error("a cookie tells something")
	}
	changed := []byte(cookie)
	changed[20] ^= 1
	for _, row := range []struct {
		by, cookie string
		after      time.Duration
		good       bool
	}{
		{"one", cookie, 0, true},
		{"same key", cookie, 59 * time.Second, true},
		{"one", cookie, 61 * time.Second, false},
		{"own key", cookie, 0, false},
		{"one", string(changed), 0, false},
		{"one", "", 0, false},
		{"one", cookie[:30], 0, false},
	} {
		if got, good := seals[row.by].open(row.cookie, now.Add(row.after)); good != row.good || good && got != token {
			t.Errorf("%s, after %v: %d bytes are good: %v", row.by, row.after, len(row.cookie), good)
		}
	}
	seals["one"].end(cookie, now)
	if _, good := seals["one"].open(cookie, now); good {
		t.Error("it is good after the logout")
	}
	if a, b := seals["one"].form("a"), seals["same key"].form("a"); a != b || a == seals["one"].form("b") {
		t.Errorf("forms have %s and %s", a, b)
	}
}

func TestAKeyHasToBeLong(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	for _, text := range []string{"", "short"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := newSeal(file); err == nil {
			t.Errorf("%q is a key", text)
		}
	}
	if _, err := newSeal(filepath.Join(t.TempDir(), "none")); err == nil {
		t.Error("no file is a key")
	}
}
