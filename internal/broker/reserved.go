package broker

import "github.com/lockd-io/lockd/internal/lock"

// checkReserved refuses a name that reads as a helper key, with the prefix of the store in front of it or without. Other
// programs may use the same store without the prefix.
func (b *Broker) checkReserved(name string) error {
	prefix := b.cfg.KeyPrefix
	if !lock.Reserved(name) && (prefix == "" || !lock.Reserved(prefix+name)) {
		return nil
	}
	return &lock.InvalidError{
		Field: "name", Reason: lock.ReasonReserved, Detail: "the name reads as a key in which the store keeps the state of another lock",
	}
}
