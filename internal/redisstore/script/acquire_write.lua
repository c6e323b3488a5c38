-- acquire_write.lua: let an owner write, once or again; or have it keep new readers away.
-- KEYS    as in acquire_read.lua
-- ARGV[1] owner   ARGV[2] hold count afterwards   ARGV[3] TTL in ms
-- ARGV[4] the fence the owner has, 0 if none      ARGV[5] TTL of the fence key in ms
-- ARGV[6] for how many ms a refused owner keeps new readers away, 0 for none
-- ARGV[7] what keys of single holds begin with
-- Returns {1, fence, ttl_ms} if the owner writes afterwards; {0, ms, owner} if another writes or reads;
--         {-1} if it should write and does not, {-2} if it does with another fence.
-- Safe to run twice: the second run returns the same fence and the same count. Reads first, writes last; the first
-- write is the one that fails when memory is full, so then nothing was done.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[7]}
local a = {
  owner = ARGV[1], count = ARGV[2], ttl = tonumber(ARGV[3]), fence = ARGV[4], fence_ttl = ARGV[5],
  place = tonumber(ARGV[6]),
}
local bad = rw_misfit(r)
if bad then return bad end
local refusal, state = write_check(r, a)
return refusal or write_take(r, a, state)
