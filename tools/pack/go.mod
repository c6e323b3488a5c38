module github.com/lockd-io/lockd/tools/pack

go 1.26.0
