package layout

import (
	"strconv"
	"strings"
)

// Slots is how many slots a cluster has.
const Slots = 16384

// Slot is the cluster slot of a key or a channel by the cluster specification of Redis: CRC16 (XMODEM) of its tag,
// modulo the number of slots.
func Slot(key string) int {
	crc := uint16(0)
	for _, b := range []byte(tag(key)) {
		crc = crc<<8 ^ crcTable[byte(crc>>8)^b]
	}
	return int(crc % Slots)
}

// tag is the part of a key that decides its slot: what is between the first brace and the next closing one, or all.
func tag(key string) string {
	_, rest, ok := strings.Cut(key, "{")
	if inner, _, closed := strings.Cut(rest, "}"); ok && closed && inner != "" {
		return inner
	}
	return key
}

// DataIn is Data for the node of a cluster that has this slot.
func DataIn(slot int) string {
	for i := 0; ; i++ { // each slot has such a number
		if inner := strconv.Itoa(i); Slot(inner) == slot {
			return Data + ":{" + inner + "}"
		}
	}
}

// InOneSlot says whether all keys of N are in one slot. They are not if N has braces that enclose nothing, or that are
// not a pair.
func InOneSlot(n string) bool { return tag(n) == tag(Channel(n)) }

// crcTable has the CRC of each byte, for the polynomial x¹⁶ + x¹² + x⁵ + 1.
var crcTable = func() (table [256]uint16) {
	for i := range table {
		crc := uint16(i) << 8 //nolint:gosec // a byte
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
		table[i] = crc
	}
	return table
}()
