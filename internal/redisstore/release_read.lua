-- release_read.lua: give a hold of a reader back: count it down or end it.
-- KEYS    as in acquire_read.lua
-- ARGV[1] owner   ARGV[2] its fence, 0 for any   ARGV[3] hold count afterwards, 0 to end it
-- ARGV[4] redisson_rwlock:{<name>}               ARGV[5] what keys of single holds begin with
-- Returns {1, receivers} if it was counted down or ended; {-1} if the owner does not read, {-2} if it does with another
--         fence. Only when the last one ended there is a message. Each hold has a time of its own: if that of all that
--         would remain has passed, the owner does not read any more.
-- Safe to run twice: a second run finds nothing and answers -1. Nobody else's time is changed. Works when memory is full.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[5]}
local owner, remaining = ARGV[1], tonumber(ARGV[3])
local bad = misfit(r.name, 'hash')
if bad then return bad end
local got = redis.call('HMGET', r.name, 'mode', owner)
local mode, had = got[1], tonumber(got[2])
if not (mode and had) then return {-1} end
local fence = read_fence(r, owner, had)
if not fence then return {-1} end -- its time has passed
if ARGV[2] ~= '0' and fence ~= ARGV[2] then return {-2} end

-- The lock lives as long as its longest hold.
local longest = redis.call('PTTL', r.name) <= read_left(r, owner, had)
remaining = math.min(remaining, had)
read_drop(r, owner, remaining + 1, had) -- opens the way for HSET when memory is full
local goes_on = remaining > 0 and read_fence(r, owner, remaining)
if goes_on then
  rw_extend(r.name, 0) -- opens it if there was nothing to drop
  redis.call('HSET', r.name, owner, remaining)
else
  redis.call('HDEL', r.name, owner)
end
if mode ~= 'read' then -- a writer is left, and keeps its time
  if not goes_on then news(r.name, 'released', fence, 0) end
  return {1, 0}
end
-- With many readers, if another hold is the longest one the lock keeps its time: it takes no look at all of them to know that.
if not goes_on and not longest and redis.call('HLEN', r.name) > 8 and rw_another(r) then
  news(r.name, 'released', fence, 0)
  return {1, 0}
end
local readers = rw_readers(r, true)
if readers.alive > 0 or not readers.whole then
  rw_shrink(r, readers)
  if not goes_on then news(r.name, 'released', fence, 0) end
  return {1, 0}
end
redis.call('DEL', r.name)
return {1, tell(r.name, ARGV[4], '0', 'released', fence)}
