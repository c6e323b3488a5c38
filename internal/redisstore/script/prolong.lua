-- prolong.lua: what the scripts that renew share. It is put in front of them and is no script by itself.

-- keep has the fence key of a hold live on. A key without a TTL keeps none, see live_again.
local function keep(token, fence_ttl)
  local left = redis.call('PTTL', token)
  if left >= 0 and left < fence_ttl * 3 / 4 then redis.call('PEXPIRE', token, fence_ttl) end
end

-- GT prolongs in one command, since Redis 7.0.
local has_gt = redis.REDIS_VERSION_NUM

-- prolong has a name last for ttl ms from now, unless it lasts longer already, and returns how long it lasts. It writes
-- in any case, because a replica, whose data may be old, must not confirm a hold. ttl is a text, because Redis takes
-- long to convert a number.
local function prolong(name, ttl)
  if has_gt and redis.call('PEXPIRE', name, ttl, 'GT') == 1 then return tonumber(ttl) end
  local left, asked = redis.call('PTTL', name), tonumber(ttl)
  if has_gt and left >= asked then return left end
  left = math.max(left, asked)
  redis.call('PEXPIRE', name, left)
  return left
end
