// Package attacks has hostile clients beside honest ones, on the real program. What they cost lockd is counted in its
// own processor time and memory, so it does not matter how fast the machine is, and what else runs there.
package attacks
