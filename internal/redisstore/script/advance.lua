-- advance.lua: the fence of a grant. It is put in front of scripts and is no script by itself. It needs no other file, so it may
-- stand before all of them.

-- live_again has a fence key live for ttl ms from now, at the first grant in each half of ttl. So after any grant the
-- key lives for half of ttl at least. Fences follow the clock, so last, the fence before, says when the grant before
-- was. A key without a TTL keeps none: an RFencedLock made it, and counts on from it whenever that is.
local function live_again(key, ttl, last, fence)
  local half = ttl * 500 -- in microseconds
  if last and last - last % half == fence - fence % half then return end
  if redis.call('PTTL', key) >= 0 then redis.call('PEXPIRE', key, ttl) end
end

-- advance_fence stores the next fence, max(last + 1, now), and returns it, or nil and an error reply. now, and text, is
-- the clock in microseconds, or the least fence that is wanted. now is nearly always ahead, so it is stored first, and
-- the reply is the last fence. Redis leaves a key of another type alone, so this may be the first write of a script,
-- without a check before it.
local function advance_fence(key, ttl, now, text)
  local before = redis.pcall('SET', key, text, 'KEEPTTL', 'GET')
  if not before then
    redis.call('PEXPIRE', key, ttl)
    return now
  end
  if type(before) == 'table' then
    if string.find(before.err, 'WRONGTYPE', 1, true) then before = {err = 'LOCKDKIND the fence key is no string'} end
    return nil, before
  end
  local last = not string.find(before, '%D') and tonumber(before)
  if not last or last > 9007199254740000 then
    redis.call('SET', key, before, 'KEEPTTL')
    return nil, {err = 'LOCKDKIND the fence key holds no fence'}
  end
  live_again(key, ttl, last < now and last, now) -- one that is ahead says nothing of when it was given
  if last < now then return now end
  redis.call('SET', key, string.format('%.0f', last + 1), 'KEEPTTL')
  return last + 1
end
