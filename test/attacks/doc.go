// Package attacks runs hostile clients, in processes of their own, beside honest ones, on the real program, with a
// clients file and without. What they cost lockd is counted in its own processor time and memory, so it does not matter
// how fast the machine is, and what else runs there.
package attacks
