-- release_semaphore.lua: give permits of an owner back: all, or all but the first ones.
-- KEYS    as in acquire_semaphore.lua
-- ARGV[1] owner   ARGV[2] how many permits it has, 0 if that is not known   ARGV[3] redisson_sc:{<name>}
-- ARGV[4] its fence, 0 if that is not known; it is only told   ARGV[5] how many it keeps
-- Returns {1, receivers, left} with how many of those it keeps are left, or {-1} if the owner has none that has not ended.
-- Safe to run twice: which ones are kept does not depend on what was given back before. Works when memory is full: what it
-- writes first is allowed then and opens the way for the others.
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3], channel = ARGV[3]}
local keeps = tonumber(ARGV[5])
local available, bad = sem_available(s)
bad = bad or misfit(s.out, 'zset')
if bad then return bad end
if not available then
  redis.call('UNLINK', s.out) -- permits of one that is forgotten
  return {-1}
end
local now = now_ms()
local purged = sem_purge(s, now)
local kept = keeps > 0 and #sem_own(s, ARGV[1], keeps, now) or 0
local given = sem_own(s, ARGV[1], tonumber(ARGV[2]), now, keeps)
if #given == 0 then
  if purged then sem_tell(s, purged) end
  if kept == 0 then return {-1} end
  return {1, 0, kept}
end
available = redis.call('INCRBY', s.name, sem_drop(s, given))
if keeps > 0 then return {1, sem_tell(s, available), kept} end -- the hold goes on
return {1, sem_tell(s, available, 'released', ARGV[4], 'permit ' .. permit_stem(ARGV[1])), 0}
