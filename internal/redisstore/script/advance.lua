-- advance.lua: the fence of a grant. It is put in front of scripts and is no script by itself. It needs no other file, so it may
-- stand before all of them.

-- live_again has a fence key live for ttl ms once in each half of that, with the first grant; so after any grant it lives for half
-- of it at least. Fences follow the clock: last, the one before, says when the grant before was. A key without an end keeps
-- none: an RFencedLock made it so, and counts on from it however long lockd does not come by.
local function live_again(key, ttl, last, fence)
  local half = ttl * 500 -- in microseconds
  if last and last - last % half == fence - fence % half then return end
  if redis.call('PTTL', key) >= 0 then redis.call('PEXPIRE', key, ttl) end
end

-- advance_fence stores the next fence and returns it, or nil and an error reply: max(last + 1, now). now is
-- the clock in microseconds, or the least fence that is wanted, as number and as text. The clock is nearly always ahead, so it is stored first, and the last fence is what was there
-- before. Redis leaves a key of another type alone, and so this may be the first write of a script without a check before it.
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
