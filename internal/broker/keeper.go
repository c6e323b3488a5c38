package broker

import "time"

// Keeper keeps leases alive and ends those that are lost. It is declared here, by its only caller; watchdog
// implements it. None of its methods blocks or calls back.
type Keeper interface {
	// Keep begins to keep a lease, or takes note that its validity, which is given, or its mode changed.
	Keep(l *Lease, until time.Time)
	// Drop ends that. A renewal in flight may still be told to the lease, which ignores it.
	Drop(l *Lease)
	// Hurry renews the leases after a delay instead of at their time.
	Hurry(ls []*Lease, delay time.Duration)
}
