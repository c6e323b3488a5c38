// ociview prints what is in an archive of OCI images: digests, platforms, sizes as they travel, users, labels and
// files.
package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

type descriptor struct {
	Digest   string
	Size     int64
	Platform struct{ OS, Architecture string }
}

type archive map[string][]byte // by path

func (a archive) parse(d descriptor, v any) {
	must(json.Unmarshal(a[path.Join("blobs", strings.Replace(d.Digest, ":", "/", 1))], v))
}

func main() {
	f, err := os.Open(os.Args[1])
	must(err)
	a := archive(files(f))
	var top struct{ Manifests []descriptor }
	must(json.Unmarshal(a["index.json"], &top))
	fmt.Println("digest", top.Manifests[0].Digest)
	var list struct{ Manifests []descriptor }
	if a.parse(top.Manifests[0], &list); len(list.Manifests) == 0 { // one platform
		list.Manifests = top.Manifests
	}
	for _, m := range list.Manifests {
		a.show(m)
	}
}

func (a archive) show(m descriptor) {
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	a.parse(m, &manifest)
	var image struct {
		OS, Architecture string
		Config           struct {
			User       string
			Entrypoint []string
			Labels     map[string]string
		}
	}
	a.parse(manifest.Config, &image)
	fmt.Printf("\nplatform %s/%s\nuser %s\nentrypoint %s\n", image.OS, image.Architecture, image.Config.User,
		strings.Join(image.Config.Entrypoint, " "))
	for _, k := range slices.Sorted(maps.Keys(image.Config.Labels)) {
		fmt.Printf("label %s=%s\n", k, image.Config.Labels[k])
	}
	size := m.Size + manifest.Config.Size
	for _, l := range manifest.Layers {
		size += l.Size
		raw, err := gzip.NewReader(bytes.NewReader(a[path.Join("blobs", strings.Replace(l.Digest, ":", "/", 1))]))
		must(err)
		for _, name := range slices.Sorted(maps.Keys(files(raw))) {
			fmt.Printf("file /%s\n", strings.TrimPrefix(name, "/"))
		}
	}
	fmt.Println("size", size)
}

// files are those of a tar.
func files(from io.Reader) map[string][]byte {
	out := map[string][]byte{}
	for r := tar.NewReader(from); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return out
		}
		must(err)
		if h.Typeflag == tar.TypeReg {
			text, err := io.ReadAll(r)
			must(err)
			out[path.Clean(h.Name)] = text
		}
	}
}

func must(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "ociview:", err)
		os.Exit(1)
	}
}
