-- release_semaphore.lua: give all permits of an owner back.
-- KEYS    as in acquire_semaphore.lua
-- ARGV[1] owner   ARGV[2] how many permits it has, 0 if that is not known   ARGV[3] redisson_sc:{<name>}
-- ARGV[4] its fence, 0 if that is not known; it is only told
-- Returns {1, receivers}, or {-1} if the owner has none that has not ended.
-- Safe to run twice: a second run finds none and answers -1. Works when memory is full: what it writes first is allowed
-- then and opens the way for the others.
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3], channel = ARGV[3]}
local available, bad = sem_available(s)
if bad then return bad end
if not available then
  redis.call('DEL', s.out) -- permits of one that is forgotten
  return {-1}
end
local now = now_ms()
local purged = sem_purge(s, now)
local there = sem_own(s, ARGV[1], tonumber(ARGV[2]), now)
if #there == 0 then
  if purged then sem_tell(s, purged) end
  return {-1}
end
return {1, sem_tell(s, redis.call('INCRBY', s.name, sem_drop(s, there)), 'released', ARGV[4])}
