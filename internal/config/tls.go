package config

// Whether clients show certificates.
const (
	ClientCertsNone     = "none"
	ClientCertsOptional = "optional"
	ClientCertsRequired = "required"
)

// TLS says whether and how an address of lockd speaks TLS: it does if there is a certificate. Files are PEM.
type TLS struct {
	CertFile     string     `key:"cert_file"` // the server's, with the intermediate authorities after it
	KeyFile      SecretFile `key:"key_file"`
	ClientCerts  string     `key:"client_certs" default:"none" oneof:"none optional required"`
	ClientCAFile string     `key:"client_ca_file"` // the authorities of clients' certificates
	MinVersion   string     `key:"min_version" default:"1.3" oneof:"1.2 1.3"`
}

// Enabled says whether TLS is spoken.
func (t TLS) Enabled() bool { return t.CertFile != "" }

// validate finds what is wrong with the TLS of an address.
func (t TLS) validate(p *problems, section, addr string) {
	asks := t.ClientCerts != ClientCertsNone
	p.unless((t.CertFile == "") == (t.KeyFile == ""), section+".cert_file", "and %s.key_file need each other", section)
	p.unless(addr != "" || !t.Enabled(), section+".cert_file", "is set, but nothing is served there: the address is empty")
	p.unless(!asks || t.Enabled(), section+".client_certs", "is %q, but there is no %s.cert_file", t.ClientCerts, section)
	p.unless(!asks || t.ClientCAFile != "", section+".client_ca_file", "is needed when %s.client_certs is %q",
		section, t.ClientCerts)
	p.unless(asks || t.ClientCAFile == "", section+".client_ca_file", "is set, but %s.client_certs is %q; say %q or %q",
		section, t.ClientCerts, ClientCertsOptional, ClientCertsRequired)
}
