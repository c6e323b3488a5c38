-- release_semaphore.lua: release permits of an owner: all, or all but the first ones.
-- KEYS    as in acquire_all.lua, of a semaphore
-- ARGV[1] owner   ARGV[2] how many permits it has, 0 if that is not known   ARGV[3] redisson_sc:{<name>}
-- ARGV[4] its fence, 0 if that is not known; it is only told   ARGV[5] how many it keeps
-- Returns {1, receivers, left} with how many of those it keeps are left, or {-1} if the owner has none that has not ended.
-- Safe to run twice: which ones are kept does not depend on what was released before. Works when memory is full: what it
-- writes first is allowed then and opens the way for the others.
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3], channel = ARGV[3]}
return sem_release(s, {owner = ARGV[1], permits = tonumber(ARGV[2]), fence = ARGV[4], keeps = tonumber(ARGV[5])})
