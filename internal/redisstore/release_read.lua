-- release_read.lua: give a hold of a reader back: count it down or end it.
-- KEYS    as in acquire_read.lua
-- ARGV[1] owner   ARGV[2] its fence, 0 for any   ARGV[3] hold count afterwards, 0 to end it
-- ARGV[4] redisson_rwlock:{<name>}               ARGV[5] what keys of single holds begin with
-- Returns {1, receivers} if it was counted down or ended; {-1} if the owner does not read, {-2} if it does with another
--         fence. Only when the last one ended there is a message.
-- Safe to run twice: a second run finds nothing and answers -1. Nobody else's time is changed. Works when memory is full.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[5]}
local owner, remaining = ARGV[1], tonumber(ARGV[3])
local got = redis.call('HMGET', r.name, 'mode', owner)
local mode, had = got[1], got[2]
if not (mode and had) then return {-1} end
local fence = redis.call('GET', read_key(r, owner, 1))
if not fence then return {-1} end -- its time has passed
if ARGV[2] ~= '0' and fence ~= ARGV[2] then return {-2} end

if remaining > 0 then
  redis.call('DEL', read_key(r, owner, remaining + 1)) -- opens the way for HSET when memory is full
  for i = remaining + 2, tonumber(had) do redis.call('DEL', read_key(r, owner, i)) end
  redis.call('HSET', r.name, owner, remaining)
  return {1, 0}
end

for i = 1, tonumber(had) do redis.call('DEL', read_key(r, owner, i)) end
redis.call('HDEL', r.name, owner)
if mode ~= 'read' then -- a writer is left, and keeps its time
  news(r.name, 'released', fence, 0)
  return {1, 0}
end
local readers = rw_readers(r, true)
if readers.alive > 0 or not readers.whole then
  rw_shrink(r, readers)
  news(r.name, 'released', fence, 0)
  return {1, 0}
end
redis.call('DEL', r.name)
return {1, tell(r.name, ARGV[4], '0', 'released', fence)}
