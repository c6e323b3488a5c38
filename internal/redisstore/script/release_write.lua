-- release_write.lua: release the hold of a writer: end it, or hand it to another writer.
-- KEYS    as in acquire_all.lua, of a writer
-- ARGV[1] owner   ARGV[2] its fence, 0 for any
-- ARGV[3] next owner, '' for none   ARGV[4] its TTL in ms   ARGV[5] TTL of the fence key in ms
-- ARGV[6] redisson_rwlock:{<name>}  ARGV[7] what keys of single holds begin with  ARGV[8] its least fence, 0 for the clock
-- Returns {1, receivers} if it was ended, {2, fence} if the next owner writes afterwards,
--         {-1} if the owner does not write, {-2} if it does with another fence. Readers that are left, the owner's own, keep the
--         lock. In any case the owner does not keep new readers away any more.
-- Safe to run twice: a second run finds nothing and answers -1, or finds the next owner and answers its fence.
-- Works when memory is full: each branch begins with a write that is allowed then, which opens the way for the others.
-- If the fence key holds no fence, the hold is ended and not handed over.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[7]}
local owner, successor, ttl, fence_ttl, channel = ARGV[1], ARGV[3], ARGV[4], ARGV[5], ARGV[6]
local bad = lock_misfit(r.name)
if bad then return bad end
local got = redis.call('HMGET', r.name, 'mode', owner .. ':write', successor .. ':write')
local held = got[1] == 'write' and got[2]
local holds = {write_key(r, owner), successor ~= '' and write_key(r, successor) or nil}
if (held or got[3]) and not all_here(r, holds) then return on_its_way() end
if redis.pcall('GET', r.writer) == owner then
  redis.call('DEL', r.writer)
  if not held then tell(r.name, channel, '1', 'nothing', '0') end
end
if not held then
  if got[1] ~= 'write' or successor == '' or not got[3] then return {-1} end
  -- An earlier run handed it over and its reply was lost, or the successor has it for another reason. It must last for
  -- its TTL at least.
  local left = extend(r.name, tonumber(ttl)) -- opens the way
  local fence = write_fence(r, successor)
  fence = fence and tonumber(fence) or grant_fence(r.token, fence_ttl)
  if not fence then return redis.error_reply('LOCKDUNSURE the fence of the handoff was overwritten') end
  rw_note(write_key(r, successor), fence, left)
  return {2, fence}
end

local text = write_fence(r, owner)
if text and ARGV[2] ~= '0' and text ~= ARGV[2] then return {-2} end
text = text or ARGV[2]

local last = successor ~= '' and last_fence(r.token)
rw_drop({write_key(r, owner)})
redis.call('HDEL', r.name, owner .. ':write')
local readers = redis.call('HLEN', r.name) > 1 and rw_readers(r, true)
if readers and (readers.alive > 0 or not readers.whole) then
  redis.call('HSET', r.name, 'mode', 'read')
  rw_fit(r, readers)
  return {1, rw_written(r.name, channel, 'released', text)}
end
if not last then
  redis.call('DEL', r.name)
  return {1, rw_written(r.name, channel, 'released', text)}
end
local fence = next_fence(math.max(last, tonumber(ARGV[2])), ARGV[8])
redis.call('HSET', r.name, successor .. ':write', 1)
redis.call('PEXPIRE', r.name, ttl)
keep_fence(r.token, fence, fence_ttl)
rw_note(write_key(r, successor), fence, ttl)
if not owner_misfit(redis.pcall('GET', r.writer), 'waiting writer') then redis.call('DEL', r.writer) end
news(r.name, 'handed', text, 0)
return {2, fence}
