package harness

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

// BuildOnce calls build, unless it was called before for the same sources: files and directories in root. What
// is built stays in a directory, which has a note of the sources too.
func BuildOnce(dir, root string, sources []string, build func() error) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close()                                                     // nothing was written
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil { // two go tests in one checkout
		return err
	}
	state, err := digest(root, sources)
	if err != nil {
		return err
	}
	stamp := filepath.Join(dir, "stamp")
	if made, err := os.ReadFile(stamp); err == nil && string(made) == state {
		return nil
	}
	if err := build(); err != nil {
		return err
	}
	return os.WriteFile(stamp, []byte(state), 0o600)
}

// digest is that of all files, without what was built of them.
func digest(root string, sources []string) (string, error) {
	sum := sha256.New()
	for _, source := range sources {
		err := filepath.WalkDir(filepath.Join(root, source), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if d.IsDir() {
				if d.Name() == "target" {
					return filepath.SkipDir
				}
				return nil
			}
			text, err := os.ReadFile(path)
			_, _ = fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil)), nil
}
