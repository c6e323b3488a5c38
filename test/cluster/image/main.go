// image packs files of this machine into the archive of an OCI image, for the test cluster.
//
//	image -o FILE -name NAME [-entrypoint PROGRAM] [-user UID:GID] FROM=TO...
//
// A program that is linked dynamically takes its libraries along with -libraries.
package main

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// object is one of JSON.
type object = map[string]any

func main() {
	out := flag.String("o", "", "the archive")
	name := flag.String("name", "", "of the image, with its tag")
	entrypoint := flag.String("entrypoint", "", "the program")
	user := flag.String("user", "65532:65532", "who runs it")
	libraries := flag.Bool("libraries", false, "add the libraries of programs")
	flag.Parse()
	config := object{"User": *user, "Env": []string{"PATH=/usr/bin:/bin"}}
	if *entrypoint != "" {
		config["Entrypoint"] = []string{*entrypoint}
	}
	if err := write(*out, *name, config, flag.Args(), *libraries); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

// write makes an archive of files that are named FROM=TO.
func write(out, name string, config object, args []string, libraries bool) error {
	files := [][2]string{}
	for _, arg := range args {
		from, to, _ := strings.Cut(arg, "=")
		files = append(files, [2]string{from, to})
		if libraries {
			libs, err := linked(from)
			if err != nil {
				return err
			}
			for _, lib := range libs {
				files = append(files, [2]string{lib, lib})
			}
		}
	}
	l, err := layer(files)
	if err != nil {
		return err
	}
	all, err := archive(name, config, l)
	if err != nil {
		return err
	}
	return os.WriteFile(out, all, 0o600)
}

var library = regexp.MustCompile(`(/\S+) \(0x`)

// linked are the libraries of a program, with the one that loads them.
func linked(program string) (libs []string, err error) {
	out, err := exec.CommandContext(context.Background(), "ldd", program).Output()
	if err != nil {
		return nil, fmt.Errorf("ldd %s: %w", program, err)
	}
	for _, m := range library.FindAllStringSubmatch(string(out), -1) {
		libs = append(libs, m[1])
	}
	return libs, nil
}

// packed is a tar. Its first error stays.
type packed struct {
	bytes.Buffer
	w   *tar.Writer
	err error
}

func pack() *packed {
	p := &packed{}
	p.w = tar.NewWriter(&p.Buffer)
	return p
}

func (p *packed) add(kind byte, path string, mode int64, data []byte) {
	if p.err == nil {
		p.err = p.w.WriteHeader(&tar.Header{Typeflag: kind, Name: path, Mode: mode, Size: int64(len(data))})
	}
	if p.err == nil {
		_, p.err = p.w.Write(data)
	}
}

func (p *packed) end() ([]byte, error) {
	if p.err == nil {
		p.err = p.w.Close()
	}
	return p.Bytes(), p.err
}

// layer is what is in the image. All may read it, and run it.
func layer(files [][2]string) ([]byte, error) {
	p := pack()
	p.add(tar.TypeDir, "tmp/", 0o1777, nil)
	done := map[string]bool{}
	for _, f := range files {
		to := strings.TrimPrefix(f[1], "/")
		if done[to] {
			continue
		}
		done[to] = true
		for dir := filepath.Dir(to); dir != "." && !done[dir]; dir = filepath.Dir(dir) {
			done[dir] = true
			p.add(tar.TypeDir, dir+"/", 0o755, nil)
		}
		data, err := os.ReadFile(f[0])
		if err != nil {
			return nil, err
		}
		p.add(tar.TypeReg, to, 0o755, data)
	}
	return p.end()
}

// archive is the layout of an image in a tar.
func archive(name string, config object, layer []byte) ([]byte, error) {
	p := pack()
	blob := func(kind string, data []byte) object {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		p.add(tar.TypeReg, "blobs/sha256/"+sum, 0o644, data)
		return object{"mediaType": "application/vnd.oci.image." + kind, "digest": "sha256:" + sum, "size": len(data)}
	}
	encode := func(v any) []byte {
		text, err := json.Marshal(v)
		p.err = errors.Join(p.err, err)
		return text
	}
	l := blob("layer.v1.tar", layer)
	c := blob("config.v1+json", encode(object{
		"os": "linux", "architecture": runtime.GOARCH, "config": config,
		"rootfs": object{"type": "layers", "diff_ids": []any{l["digest"]}},
	}))
	m := blob("manifest.v1+json", encode(object{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": c, "layers": []any{l},
	}))
	m["annotations"] = object{"io.containerd.image.name": name}
	p.add(tar.TypeReg, "oci-layout", 0o644, encode(object{"imageLayoutVersion": "1.0.0"}))
	p.add(tar.TypeReg, "index.json", 0o644, encode(object{"schemaVersion": 2, "manifests": []any{m}}))
	return p.end()
}
