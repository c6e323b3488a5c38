module github.com/lockd-io/lockd/tools/sbom

go 1.26.0
