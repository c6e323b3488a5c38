package console

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"os"
	"sync"
	"time"
)

// seal makes what browsers keep for us, and others can neither read nor make.
type seal struct {
	cookies cipher.AEAD
	forms   []byte

	mu    sync.Mutex           // guards the field below
	ended map[string]time.Time // cookies of those who logged out here, until they expire
}

// ReadKey reads the file of a key.
func ReadKey(file string) ([]byte, error) {
	key, err := os.ReadFile(file)
	if err == nil && len(key) < keyBytes {
		err = fmt.Errorf("%s has %d bytes, must have %d or more", file, len(key), keyBytes)
	}
	return key, err
}

// newSeal makes one with the key of a file, or without a file with a key that only this process has.
func newSeal(file string) (*seal, error) {
	key := make([]byte, keyBytes)
	_, _ = rand.Read(key) // it never fails
	if file != "" {
		var err error
		if key, err = ReadKey(file); err != nil {
			return nil, err
		}
	}
	part := func(of string) []byte {
		sum := sha256.Sum256(append([]byte(of), key...))
		return sum[:]
	}
	block, err := aes.NewCipher(part("cookies of lockd's console: "))
	if err != nil {
		return nil, err
	}
	cookies, err := cipher.NewGCMWithRandomNonce(block)
	return &seal{cookies: cookies, forms: part("forms of lockd's console: "), ended: map[string]time.Time{}}, err
}

// close is a cookie with a token, which is good until a time.
func (s *seal) close(token string, until time.Time) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(until.Unix())) //nolint:gosec // it is after 1970
	return base64.RawURLEncoding.EncodeToString(s.cookies.Seal(nil, nil, append(plain, token...), nil))
}

// open is the token of a cookie. It is good if we made it, it has not expired, and nobody logged out with it here.
func (s *seal) open(cookie string, now time.Time) (token string, good bool) {
	sealed, err := base64.RawURLEncoding.Strict().DecodeString(cookie) // else other texts would be the same cookie
	if err != nil {
		return "", false
	}
	plain, err := s.cookies.Open(nil, nil, sealed, nil)
	if err != nil || len(plain) < 8 || uint64(now.Unix()) >= binary.BigEndian.Uint64(plain) { //nolint:gosec // as above
		return "", false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ended := s.ended[cookie]
	return string(plain[8:]), !ended
}

// end makes a cookie bad, at this replica.
func (s *seal) end(cookie string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, until := range s.ended {
		if now.After(until) || len(s.ended) >= mostEnded {
			delete(s.ended, other)
		}
	}
	s.ended[cookie] = now.Add(loginTime)
}

// form is the secret in the forms of a client's pages, so that no other site can make his browser send one.
func (s *seal) form(client string) string {
	sum := hmac.New(sha256.New, s.forms)
	_, _ = sum.Write([]byte(client))
	return base64.RawURLEncoding.EncodeToString(sum.Sum(nil)[:18])
}
