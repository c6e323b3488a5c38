-- acquire_read.lua: let an owner read, once or again.
-- KEYS[1] <name>                       hash: mode, and owner -> hold count, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- KEYS[3] lockd_lock_writer:{<name>}   owner that waits to write, with a TTL
--         and keys of single holds, see rw.lua
-- ARGV[1] owner   ARGV[2] hold count afterwards   ARGV[3] TTL in ms
-- ARGV[4] the fence the owner has, 0 if none      ARGV[5] TTL of the fence key in ms
-- ARGV[6] owner of a write hold that does not stand in the way, '' for none
-- ARGV[7] what keys of single holds begin with
-- Returns {1, fence, ttl_ms} if the owner reads afterwards; {0, ms, owner} if another writes or waits to write;
--         {-1} if it should read and does not, {-2} if it does with another fence.
-- Safe to run twice: the second run returns the same fence and the same count. Reads first, writes last; the first
-- write is the one that fails when memory is full, so then nothing was done.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[7]}
local a = {
  owner = ARGV[1], count = ARGV[2], ttl = tonumber(ARGV[3]), fence = ARGV[4], fence_ttl = ARGV[5], write_owner = ARGV[6],
}
return read_acquire(r, a)
