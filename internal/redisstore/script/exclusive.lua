-- exclusive.lua: acquisitions and releases of an exclusive lock, whatever is there. It is put in front of scripts, after plain.lua
-- and news.lua, and is no script by itself.
--
-- p has the keys: name, token. Both return what the scripts acquire.lua and release.lua do.

-- exclusive_acquire makes a claim, as in plain.lua. It reads first and writes last; the first write is the one that fails when
-- memory is full, so then nothing was done.
local function exclusive_acquire(p, a)
  local bad = lock_misfit(p.name)
  if bad then return bad end
  local refusal, mine = plain_check(p, a)
  return refusal or plain_take(p, a, mine)
end

-- exclusive_release ends a hold, or counts it down. r has: owner, fence, remaining, successor and least, the least fence of
-- the successor, as texts, the successor's ttl and fence_ttl in ms. Each branch begins with a write that is allowed when memory
-- is full, which opens the way for the others.
local function exclusive_release(p, r)
  local bad = lock_misfit(p.name)
  if bad then return bad end
  if not plain_hold(p.name, r.owner) then
    if r.successor ~= '' and plain_hold(p.name, r.successor) then return plain_handed(p, r.ttl, r.fence_ttl) end
    return {-1}
  end
  local text = redis.pcall('GET', p.token)
  if type(text) == 'table' then text = false end
  -- Without a fence key the owner alone decides: fences of others are then unknown to us as well.
  if text and r.fence ~= '0' and text ~= r.fence then return {-2} end

  if r.remaining ~= '0' then
    local left = redis.call('PTTL', p.name)
    if left > 0 then redis.call('PEXPIRE', p.name, left) end
    redis.call('HSET', p.name, r.owner, r.remaining)
    return {1, 0}
  end
  local last = r.successor ~= '' and last_fence(p.token)
  if not last then
    redis.call('HDEL', p.name, r.owner)
    return {1, tell(p.name, p.channel, '0', 'released', r.successor == '' and text or r.fence)}
  end
  local reply = plain_pass(p, r.owner, r.fence, last, r.successor, r.ttl, r.fence_ttl, r.least)
  news(p.name, 'handed', text or r.fence, 0)
  return reply
end
