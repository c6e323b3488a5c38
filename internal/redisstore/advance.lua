-- advance.lua: the fence of a grant. It is put in front of scripts and is no script by itself. It needs no other file, so it may
-- stand before all of them.

-- advance_fence stores the next fence and returns it, or nil and an error reply: max(last + 1, now in microseconds). now is
-- given as number and as text. The clock is nearly always ahead, so it is stored first, and the last fence is what was there
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
  local left = redis.call('PTTL', key) -- as in live_on
  if left >= 0 and left < ttl / 2 then redis.call('PEXPIRE', key, ttl) end
  if last < now then return now end
  redis.call('SET', key, string.format('%.0f', last + 1), 'KEEPTTL')
  return last + 1
end
