package request

import (
	"strings"
	"unicode/utf8"

	"github.com/lockd-io/lockd/internal/lock"
)

// checkName says whether a name can be used as a lock. Besides size and readability it must leave all its Redis keys in
// one cluster slot: helper keys of a name without '{' are `prefix:{name}`, those of a name with '{' are `prefix:name`,
// and Redis hashes what stands between the first '{' and the next '}'.
func checkName(name string, maxBytes int) error {
	bad := func(detail string) error {
		return lock.Invalid("name", lock.ReasonName, detail)
	}
	switch {
	case name == "":
		return bad("a lock needs a name")
	case len(name) > maxBytes:
		return bad("the name is too long")
	case !lock.IsReadable(name):
		return bad("the name must be valid UTF-8 without control characters")
	case !oneSlot(name):
		return bad("the braces in the name would put its keys into different cluster slots")
	}
	return nil
}

// oneSlot says whether all keys of a name hash to one slot.
func oneSlot(name string) bool {
	_, afterOpen, hasOpen := strings.Cut(name, "{")
	if !hasOpen {
		return !strings.Contains(name, "}")
	}
	tag, _, closed := strings.Cut(afterOpen, "}")
	return closed && tag != ""
}

// Holder says whether a client may use this name for a holder. '#' is for the holders made by the broker.
func (r Rules) Holder(holder string) error {
	if len(holder) > r.HolderBytes || !lock.IsReadable(holder) || strings.HasPrefix(holder, "#") {
		return lock.Invalid("holder", lock.ReasonHolder,
			"the holder must be short, valid UTF-8 without control characters, and not begin with '#'")
	}
	return nil
}

// checkText says whether a text for people may be kept.
func checkText(field, reason, text string, maxBytes int) error {
	if len(text) > maxBytes || !utf8.ValidString(text) {
		return lock.Invalid(field, reason, "too long, or not valid UTF-8")
	}
	return nil
}
