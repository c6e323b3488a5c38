-- release.lua: give a hold back: count it down, free the name, or hand it to another owner.
-- KEYS[1] <name>                          hash: owner -> hold count, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>}    last fence handed out
-- KEYS[3] redisson_lock__channel:{<name>} channel for those who wait
-- ARGV[1] owner   ARGV[2] its fence, 0 for any   ARGV[3] hold count afterwards, 0 to free
-- ARGV[4] next owner, '' for none   ARGV[5] its TTL in ms   ARGV[6] TTL of the fence key in ms
-- Returns {1, receivers} if it was counted down or freed, {2, fence} if the next owner holds it afterwards,
--         {-1} if the owner does not hold it, {-2} if it holds it with another fence.
-- Safe to run twice: a second run finds nothing to free and answers -1, or finds the next owner and answers its fence.
-- Works when memory is full: each branch begins with a write that is allowed then, which opens the way for the others.
-- A fence key that holds no fence is not compared, and then the name is freed and not handed over.
local owner, remaining, heir = ARGV[1], ARGV[3], ARGV[4]
local fields = redis.pcall('HLEN', KEYS[1])
if type(fields) == 'table' then return other_kind('the name is no hash') end
local single = fields == 1

-- The ordinary case in as few commands as can be. A hash without fields is no more, and its TTL neither.
if single and remaining == '0' and heir == '' then
  if ARGV[2] ~= '0' then
    local text = redis.pcall('GET', KEYS[2])
    if type(text) == 'string' and text ~= ARGV[2] and redis.call('HEXISTS', KEYS[1], owner) == 1 then return {-2} end
  end
  if redis.call('HDEL', KEYS[1], owner) == 0 then return {-1} end
  local heard = redis.call('PUBLISH', KEYS[3], '0')
  if heard > 0 then news(KEYS[1], 'released', fence_text(ARGV[2], KEYS[2]), 1) end
  return {1, heard}
end

if not (single and redis.call('HEXISTS', KEYS[1], owner) == 1) then
  if heir == '' or not (single and redis.call('HEXISTS', KEYS[1], heir) == 1) then return {-1} end
  -- The name was handed over before, and the reply was lost.
  local fence = last_fence(KEYS[2])
  if not fence then return redis.error_reply('LOCKDUNSURE the fence of the hand-over was overwritten') end
  if fence == 0 then
    fence = next_fence(0)
    keep_fence(KEYS[2], fence, ARGV[6])
  end
  return {2, fence}
end

local text = redis.pcall('GET', KEYS[2])
if type(text) == 'table' then text = false end
-- Without a fence key the owner alone decides: fences of others are then unknown to us as well.
if text and ARGV[2] ~= '0' and text ~= ARGV[2] then return {-2} end

if remaining ~= '0' then
  local left = redis.call('PTTL', KEYS[1])
  if left > 0 then redis.call('PEXPIRE', KEYS[1], left) end
  redis.call('HSET', KEYS[1], owner, remaining)
  return {1, 0}
end

local last = last_fence(KEYS[2])
redis.call('HDEL', KEYS[1], owner)
if not last then return {1, tell(KEYS[1], KEYS[3], '0', 'released', ARGV[2])} end
local fence = next_fence(math.max(last, tonumber(ARGV[2])))
redis.call('HSET', KEYS[1], heir, 1)
redis.call('PEXPIRE', KEYS[1], ARGV[5])
keep_fence(KEYS[2], fence, ARGV[6])
news(KEYS[1], 'handed', text or ARGV[2], 0)
return {2, fence}
