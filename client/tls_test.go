package client

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockd-io/lockd/internal/certs/certstest"
)

func TestTLSFromEnv(t *testing.T) {
	for name, row := range map[string]struct {
		env  map[string]string
		want *TLS
	}{
		"nothing":           {nil, nil},
		"on":                {map[string]string{envTLS: "true"}, &TLS{}},
		"off":               {map[string]string{envTLS: "0", envCACert: "ca"}, nil},
		"authorities alone": {map[string]string{envCACert: "ca"}, &TLS{CACert: "ca"}},
		"all": {map[string]string{
			envTLS: "1", envCACert: "a", envCert: "b", envKey: "c",
			envServerName: "d",
		}, &TLS{"a", "b", "c", "d"}},
		"an empty one is none": {map[string]string{envTLS: "", envCert: ""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			for _, v := range []string{envTLS, envCACert, envCert, envKey, envServerName} {
				t.Setenv(v, row.env[v])
			}
			got, err := TLSFromEnv()
			if err != nil || (got == nil) != (row.want == nil) || got != nil && *got != *row.want {
				t.Errorf("got %+v, %v, want %+v", got, err, row.want)
			}
		})
	}
	t.Setenv(envTLS, "perhaps")
	if _, err := TLSFromEnv(); err == nil || !strings.Contains(err.Error(), "LOCKD_TLS") {
		t.Errorf("got %v", err)
	}
}

func TestDialRefusesFilesThatCannotBeUsed(t *testing.T) {
	ca := certstest.NewAuthority(t, "an authority")
	cert, key := ca.Issue(t, time.Hour, "x").Files(t)
	_, other := ca.Issue(t, time.Hour, "x").Files(t)
	empty := certstest.Write(t, filepath.Join(t.TempDir(), "empty"), nil)
	for want, with := range map[string]TLS{
		"authorities for TLS: open":           {CACert: "nowhere"},
		"authorities for TLS: no certificate": {CACert: empty},
		"need each other":                     {Cert: cert},
		"there is only":                       {Key: key},
		"certificate for TLS: open":           {Cert: "nowhere", Key: key},
		"does not match":                      {Cert: cert, Key: other},
	} {
		if _, err := Dial("127.0.0.1:1", WithTLS(with)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: got %v, want %s", with, err, want)
		}
	}
	c, err := Dial("127.0.0.1:1", WithTLS(TLS{CACert: ca.File(t), Cert: cert, Key: key, ServerName: "x"}))
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
}
