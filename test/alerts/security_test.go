package alerts

import (
	"crypto/ed25519"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	lockdv1 "github.com/lockd-io/lockd/api/gen/go/lockd/v1"
	"github.com/lockd-io/lockd/internal/certs/certstest"
	"github.com/lockd-io/lockd/internal/redistest"
	"github.com/lockd-io/lockd/test/harness"
)

// oneClient is a clients file. Nobody has the token.
const oneClient = "clients: [{name: a, token_sha256: '0000000000000000000000000000000000000000000000000000000000000000'}]\n"

// secure is what has a replica know its clients by a file.
func secure(t *testing.T, s *scene, file, audit string) (d *harness.Lockd, path string) {
	t.Helper()
	path = certstest.Write(t, filepath.Join(t.TempDir(), "clients.yaml"), []byte(file))
	env := []string{"LOCKD_SECURITY_CLIENTS_FILE=" + path, "LOCKD_SECURITY_AUDIT=" + audit}
	return s.serve(on(redistest.Start(t).Addr, env...)...), path
}

func theClientsFileIsWrong(t *testing.T, s *scene) func() {
	_, path := secure(t, s, oneClient, "")
	certstest.Write(t, path, []byte("clients:\n- nam: a\n"))
	return func() { certstest.Write(t, path, []byte(oneClient)) }
}

// The place of the audit is full, and there is something to write.
func theAuditIsFull(t *testing.T, s *scene) func() {
	_, path := secure(t, s, oneClient, "/dev/full")
	s.seen("lockd_audit_dropped_total") // what was there at the start is no increase
	certstest.Write(t, path, []byte(oneClient+"# as before\n"))
	return func() {}
}

func aStrangerComesAgainAndAgain(t *testing.T, s *scene) func() {
	d, _ := secure(t, s, oneClient, filepath.Join(t.TempDir(), "audit.json"))
	reads := lockdv1.NewInspectServiceClient(d.Connect(t))
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for often := time.NewTicker(100 * time.Millisecond); ; {
			select {
			case <-stop:
				often.Stop()
				return
			case <-often.C:
				if _, err := reads.WhoAmI(t.Context(), &lockdv1.WhoAmIRequest{}); err == nil {
					t.Error("nobody is somebody")
				}
			}
		}
	}()
	end := sync.OnceFunc(func() { close(stop); <-done })
	t.Cleanup(end)
	return end
}

func anIssuerHasNoKeys(t *testing.T, s *scene) func() {
	public, _, err := ed25519.GenerateKey(nil)
	harness.Must(t, err)
	text := fmt.Appendf(nil, `{"keys": [{"kty": "OKP", "crv": "Ed25519", "use": "sig", "kid": "1", "x": %q}]}`,
		base64.RawURLEncoding.EncodeToString(public))
	keys := certstest.Write(t, filepath.Join(t.TempDir(), "keys.json"), text)
	secure(t, s, "clients: [{name: a, jwt: {issuer: i, audience: lockd, sub: '*', jwks: '"+keys+"'}}]\n", "")
	s.seen("lockd_jwks_age_seconds")
	harness.Must(t, os.Remove(keys))
	return func() { certstest.Write(t, keys, text) }
}
