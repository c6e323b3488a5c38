-- exclusive.lua: acquisitions and releases of an exclusive lock in all cases, not only the ordinary ones. It is put in
-- front of scripts, after plain.lua and news.lua, and is no script by itself.
--
-- p has the keys: name, token. Both return what the scripts acquire.lua and release.lua do.

-- exclusive_acquire makes a claim, as in plain.lua. It reads first and writes last. When memory is full the first write
-- fails, so nothing was done.
local function exclusive_acquire(p, a)
  local bad = lock_misfit(p.name)
  if bad then return bad end
  local refusal, mine = plain_check(p, a)
  return refusal or plain_take(p, a, mine)
end

-- exclusive_release ends a hold, as in plain.lua. Each branch begins with a write that is allowed when memory is full, which opens
-- the way for the others.
local function exclusive_release(p, r)
  local bad = lock_misfit(p.name)
  if bad then return bad end
  local over, text = plain_over(p, r)
  if over then return over end
  local last = r.successor ~= '' and last_fence(p.token)
  if last then return plain_pass(p, r, last, text) end
  redis.call('HDEL', p.name, r.owner)
  return {1, tell(p.name, p.channel, '0', 'released', r.successor == '' and text or r.fence)}
end
