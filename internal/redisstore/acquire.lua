-- acquire.lua: take a name for an owner, once or again.
-- KEYS[1] <name>                       hash: owner -> hold count, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- ARGV[1] owner   ARGV[2] hold count afterwards   ARGV[3] TTL in ms
-- ARGV[4] the fence the owner has, 0 if none      ARGV[5] TTL of the fence key in ms
-- Returns {1, fence, ttl_ms} if the owner holds the name afterwards, {0, pttl_ms, owner} if another does,
--         {-1} if it should hold it and does not, {-2} if it holds it with another fence.
-- Safe to run twice: the second run returns the same fence and the same count. Reads first, writes last; the first
-- write is the one that fails when memory is full, so then nothing was done.
local owner, count, ttl = ARGV[1], ARGV[2], tonumber(ARGV[3])

-- The ordinary case, a free name, in as few commands as can be: each costs more than what it does.
if count == '1' and redis.call('PTTL', KEYS[1]) == -2 then
  local fence, bad = advance_fence(KEYS[2], ARGV[5])
  if bad then return bad end
  redis.call('HSET', KEYS[1], owner, 1)
  redis.call('PEXPIRE', KEYS[1], ttl)
  return {1, fence, ttl}
end

local misfits = misfit(KEYS[1], 'hash')
if misfits then return misfits end
local fields = redis.call('HLEN', KEYS[1])
local mine = fields == 1 and redis.call('HGET', KEYS[1], owner)

if mine then
  local fence, bad = last_fence(KEYS[2])
  if bad then return bad end
  -- While the owner holds the name nobody else is granted it, so the key can only be equal to the owner's fence, or
  -- gone. (An RFencedLock raises it as well, but only when it gets the lock.)
  local known = fence > 0
  if count ~= '1' and known and fence ~= tonumber(ARGV[4]) then return {-2} end
  if not known then
    -- Lost or outlived. The owner goes on with its fence; if it never heard of one, any greater one will do.
    fence = tonumber(ARGV[4])
    if fence == 0 then fence = next_fence(0) end
  end
  local left = redis.call('PTTL', KEYS[1])
  if mine ~= count then redis.call('HSET', KEYS[1], owner, count) end
  redis.call('PEXPIRE', KEYS[1], math.max(left, ttl)) -- in any case: a replica must not confirm a hold
  if known then
    live_on(KEYS[2], ARGV[5])
  else
    keep_fence(KEYS[2], fence, ARGV[5])
  end
  return {1, fence, math.max(left, ttl)}
end

if count ~= '1' then return {-1} end

-- More than one field is a read-write lock; with one holder the other field is its mode.
local hint = ''
if fields <= 2 then
  for _, field in ipairs(redis.call('HKEYS', KEYS[1])) do
    if field ~= 'mode' then hint = string.match(field, '^(.*):write$') or field end
  end
end
return {0, redis.call('PTTL', KEYS[1]), hint}
