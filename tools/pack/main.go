// pack makes archives that are the same whenever and wherever they are made: pack TIME OUT.tar.gz PREFIX DIR
//
// TIME is in seconds since 1970, and the time of all files. PREFIX goes in front of each name; "" for none. The files
// are sorted, belong to nobody, and may be executed by all or by none.
package main

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"time"
)

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "pack TIME OUT.tar.gz PREFIX DIR")
		os.Exit(2)
	}
	if err := pack(os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(at, out, prefix, dir string) error {
	seconds, err := strconv.ParseInt(at, 10, 64)
	if err != nil {
		return err
	}
	f, err := os.Create(out)
	if err != nil {
		return err
	}
	zipped := gzip.NewWriter(f)
	archive := tar.NewWriter(zipped)
	err = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error { // in the order of the names
		if err != nil || d.IsDir() {
			return err
		}
		return add(archive, name, prefix, dir, time.Unix(seconds, 0))
	})
	return errors.Join(err, archive.Close(), zipped.Close(), f.Close())
}

func add(archive *tar.Writer, name, prefix, dir string, at time.Time) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	inside, err := filepath.Rel(dir, name)
	if err != nil {
		return err
	}
	header := &tar.Header{
		Name: path.Join(prefix, filepath.ToSlash(inside)), Mode: mode, Size: int64(len(text)), ModTime: at,
		Format: tar.FormatUSTAR,
	}
	if err := archive.WriteHeader(header); err != nil {
		return err
	}
	_, err = archive.Write(text)
	return err
}
