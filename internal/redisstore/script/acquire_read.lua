-- acquire_read.lua: let an owner read, once or again.
-- KEYS[1] <name>                       hash: mode, and owner -> 1, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- KEYS[3] lockd_lock_writer:{<name>}   owner that waits to write, with a TTL
--         and keys of single holds, see rw.lua
-- ARGV[1] owner   ARGV[2] TTL in ms   ARGV[3] the least fence it is to have, 0 for the clock   ARGV[4] TTL of the fence key in ms
-- ARGV[5] owner of a write hold that does not stand in the way, '' for none
-- ARGV[6] what keys of single holds begin with
-- Returns {1, fence, ttl_ms} if the owner reads afterwards; {0, ms, owner} if another writes or waits to write.
-- Safe to run twice: the second run returns the same fence. Reads first, writes last; the first
-- write is the one that fails when memory is full, so then nothing was done.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[6]}
return read_acquire(r, {
  owner = ARGV[1], ttl = tonumber(ARGV[2]), fence = ARGV[3], fence_ttl = ARGV[4], write_owner = ARGV[5],
})
