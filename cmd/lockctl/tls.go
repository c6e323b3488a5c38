package main

import (
	"cmp"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"

	"github.com/lockd-io/lockd/client"
)

// tlsFlags are the flags that say how to speak TLS. Each of them means TLS, unless --tls=false is given.
type tlsFlags struct {
	set   *pflag.FlagSet
	on    bool
	files client.TLS
}

func (f *tlsFlags) add(to *pflag.FlagSet) {
	f.set = to
	to.BoolVar(&f.on, "tls", false,
		"speak TLS to the server, at --addr and --admin-addr. The default can be set by LOCKD_TLS; "+
			"each of the following means it, too")
	to.StringVar(&f.files.CACert, "cacert", "",
		"PEM `file` with the authorities to trust (LOCKD_CACERT); the default is the system's")
	to.StringVar(&f.files.Cert, "cert", "", "PEM `file` with a certificate to show (LOCKD_CERT)")
	to.StringVar(&f.files.Key, "key", "", "PEM `file` with the key of --cert (LOCKD_KEY)")
	to.StringVar(&f.files.ServerName, "server-name", "",
		"the `name` expected in the server's certificate (LOCKD_SERVER_NAME)")
}

// credentials say how to speak TLS to the server, if at all. Flags override variables, one by one.
func (o *options) credentials() (credentials.TransportCredentials, error) {
	f := &o.tls
	t, err := client.TLSFromEnv()
	switch {
	case err != nil && !f.set.Changed("tls"):
		return nil, usage(err)
	case f.set.Changed("tls") && !f.on:
		t = nil
	case t != nil || f.on || f.files != client.TLS{}:
		t = cmp.Or(t, &client.TLS{})
		t.CACert, t.Cert = cmp.Or(f.files.CACert, t.CACert), cmp.Or(f.files.Cert, t.Cert)
		t.Key, t.ServerName = cmp.Or(f.files.Key, t.Key), cmp.Or(f.files.ServerName, t.ServerName)
	}
	creds, err := t.Credentials()
	if err != nil {
		return nil, usage(err)
	}
	return creds, nil
}

// dialOptions are credentials as options of gRPC, with the token if there is one.
func (o *options) dialOptions() ([]grpc.DialOption, error) {
	creds, err := o.credentials()
	if err != nil {
		return nil, err
	}
	opts := []grpc.DialOption{grpc.WithTransportCredentials(creds)}
	if o.tokenFile == "" {
		return opts, nil
	}
	if o.token == nil { // once, as it may be a pipe
		if o.token, err = client.TokenCredentials(o.tokenFile); err != nil {
			return nil, usagef("--token-file: %w", err)
		}
	}
	return append(opts, grpc.WithPerRPCCredentials(o.token)), nil
}
