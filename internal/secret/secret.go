// Package secret has the type of a setting that must not be shown: the path of a file with a secret, never the secret
// itself.
package secret

import (
	"fmt"
	"io"
)

// File is the path of a file that holds a secret. It prints as ***.
type File string

const redacted = "***"

// Format hides the path from fmt.
func (File) Format(to fmt.State, _ rune) { _, _ = io.WriteString(to, redacted) }

// MarshalText hides the path from encoders, JSON's among them.
func (File) MarshalText() ([]byte, error) { return []byte(redacted), nil }
