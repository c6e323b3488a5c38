-- fence.lua: what acquire.lua and release.lua share. It is put in front of both and is no script by itself.
--
-- A fence key holds the last fence of a name, in decimal. Numbers stay below 2^53, where Lua's are exact.

-- number_of reads what was in a fence key. Going on from something else could make fences smaller, so nothing is done to
-- such a name: the second result is then an error reply.
local function number_of(text)
  local fence = string.match(text, '^%d+$') and tonumber(text)
  if not fence or fence > 9007199254740000 then
    return nil, redis.error_reply('LOCKDKIND the fence key holds no fence')
  end
  return fence
end

-- last_fence returns the fence in a key, 0 if there is none, or nil and an error reply if something else is in it.
local function last_fence(key)
  local text = redis.call('GET', key)
  if not text then return 0 end
  return number_of(text)
end

-- fence_text is the fence of a hold that has its name for itself alone, as far as known: given, or the last one.
local function fence_text(given, key)
  return given ~= '0' and given or redis.call('GET', key) or '0'
end

-- next_fence returns max(last + 1, now in microseconds): it grows on after the key was lost, too.
local function next_fence(last)
  local now = redis.call('TIME')
  return math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))
end

-- live_on has a fence key live on for ttl ms, or half of that at least. One without an end keeps none: an RFencedLock made
-- it so, and counts on from it however long lockd does not come by.
local function live_on(key, ttl)
  local left = redis.call('PTTL', key)
  if left >= 0 and left < ttl / 2 then redis.call('PEXPIRE', key, ttl) end
end

-- keep_fence stores a fence.
local function keep_fence(key, fence, ttl)
  if redis.call('SET', key, string.format('%.0f', fence), 'KEEPTTL', 'GET') then
    live_on(key, ttl)
  else
    redis.call('PEXPIRE', key, ttl)
  end
end

-- advance_fence stores the next fence and returns it, or nil and an error reply: max(last + 1, now in microseconds). The
-- clock is nearly always ahead, so it is stored first, and the last fence is what was there before.
local function advance_fence(key, ttl)
  local fence = next_fence(0)
  local text = redis.call('SET', key, string.format('%.0f', fence), 'KEEPTTL', 'GET')
  if not text then
    redis.call('PEXPIRE', key, ttl)
    return fence
  end
  local last, bad = number_of(text)
  if bad then
    redis.call('SET', key, text, 'KEEPTTL')
    return nil, bad
  end
  live_on(key, ttl)
  if last >= fence then
    fence = last + 1
    redis.call('SET', key, string.format('%.0f', fence), 'KEEPTTL')
  end
  return fence
end
