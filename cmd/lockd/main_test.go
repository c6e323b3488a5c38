package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestExitCodes(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.yaml")
	if err := os.WriteFile(bad, []byte("sesion: {ttl: 3s}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		want int
		args []string
	}{
		{0, []string{"--help"}},
		{0, []string{"--version"}},
		{0, []string{"--check-config", "../../configs/lockd.yaml"}},
		{exitUsage, []string{"--no-such-flag"}},
		{exitUsage, []string{"word"}},
		{exitConfig, []string{"--check-config", bad}},
		{exitConfig, []string{"--config", bad}},
		{exitConfig, []string{"--config", filepath.Join(dir, "none.yaml")}},
		{exitConfig, []string{"--listen", ":7421"}},
		{exitFailed, []string{"--listen", "192.0.2.1:1", "--ops-listen", ""}}, // no address of this machine
	}
	for _, row := range rows {
		if got := run(row.args); got != row.want {
			t.Errorf("lockd %q: got %d, want %d", row.args, got, row.want)
		}
	}
}
