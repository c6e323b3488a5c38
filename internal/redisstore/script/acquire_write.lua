-- acquire_write.lua: let an owner write, once or again; or have it keep new readers away.
-- KEYS    as in acquire_read.lua
-- ARGV[1] owner   ARGV[2] TTL in ms   ARGV[3] the least fence it is to have, 0 for the clock   ARGV[4] TTL of the fence key in ms
-- ARGV[5] for how many ms a refused owner keeps new readers away, 0 for none
-- ARGV[6] what keys of single holds begin with
-- Returns {1, fence, ttl_ms} if the owner writes afterwards; {0, ms, owner} if another writes or reads.
-- Safe to run twice: the second run returns the same fence. Reads first, writes last; the first
-- write is the one that fails when memory is full, so then nothing was done.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[6]}
local a = {owner = ARGV[1], ttl = tonumber(ARGV[2]), fence = ARGV[3], fence_ttl = ARGV[4], place = tonumber(ARGV[5])}
local bad = rw_misfit(r)
if bad then return bad end
local refusal, state = write_check(r, a)
return refusal or write_take(r, a, state)
