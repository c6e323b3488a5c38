-- look.lua: read what is known of a name, at one instant.
-- KEYS[1] <name>                       hash or string (Redisson's layouts)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- KEYS[3] redisson_lock_queue:{<name>} list: fair waiters
-- KEYS[4] {<name>}:timeout             sorted set: permit id -> when it ends
-- ARGV[1] what keys of single holds begin with, see rw.lua
-- Returns {kind, held, pttl_ms, fence as text or '', owner, count as text, holders, limit, queued}. kind is exclusive, read,
--         write, semaphore, or '' if there is nothing; held is 1 or 0.
-- Writes nothing.
local name = KEYS[1]
local what = redis.call('TYPE', name).ok
local fence, queued = redis.pcall('GET', KEYS[2]), redis.pcall('LLEN', KEYS[3])
if type(fence) ~= 'string' then fence = '' end
if type(queued) ~= 'number' then queued = 0 end
if what == 'none' then return {'', 0, 0, fence, '', '0', 0, 0, queued} end

if what == 'string' then
  local s = {name = name, token = KEYS[2], out = KEYS[4]}
  local available, bad = sem_available(s)
  if bad then return bad end
  local now = now_ms()
  local out = redis.call('ZCOUNT', s.out, '(' .. string.format('%.0f', now), '+inf')
  local limit, left = available + redis.call('ZCARD', s.out), 0
  if out > 0 then
    left = tonumber(redis.call('ZRANGE', s.out, -1, -1, 'WITHSCORES')[2])
    left = left >= 922337203685477 and -1 or left - now
  end
  return {'semaphore', out > 0 and 1 or 0, left, fence, '', '0', out, limit, queued}
end

if what ~= 'hash' then return other_kind('the name is a ' .. what .. ', not a lock') end
local bad = lock_misfit(name)
if bad then return bad end
local left, mode = redis.call('PTTL', name), redis.call('HGET', name, 'mode')
if not mode then
  local hash = redis.call('HRANDFIELD', name, 1, 'WITHVALUES') -- a lock has one field; others may have any number
  return {'exclusive', 1, left, fence, hash[1], hash[2], redis.call('HLEN', name), 0, queued}
end
local r = {name = name, base = ARGV[1]}
if mode ~= 'write' then
  local readers = rw_readers(r, false)
  if readers.alive == 0 and readers.away then return on_its_way() end
  if readers.alive == 0 then return {'', 0, 0, fence, '', '0', 0, 0, queued} end
  if readers.whole then left = readers.left else readers.alive = redis.call('HLEN', name) - 1 end
  return {'read', 1, left, fence, readers.one, readers.count, readers.alive, 0, queued}
end
local writer = rw_holder(r)
-- Whoever reads beside a writer is the writer itself, so there is one holder.
return {'write', 1, left, fence, writer, redis.call('HGET', name, writer .. ':write') or '0', 1, 0, queued}
