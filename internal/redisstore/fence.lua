-- fence.lua: what acquire.lua and release.lua share. It is put in front of both and is no script by itself.
--
-- A fence key holds the last fence of a name, in decimal. Numbers stay below 2^53, where Lua's are exact.

-- last_fence returns the fence in a key, 0 if there is none, or nil and an error reply if something else is in it.
-- Going on from there could make fences smaller, so nothing is done to such a name.
local function last_fence(key)
  local text = redis.call('GET', key)
  if not text then return 0 end
  local fence = string.match(text, '^%d+$') and tonumber(text)
  if not fence or fence > 9007199254740000 then
    return nil, redis.error_reply('LOCKDKIND the fence key holds no fence')
  end
  return fence
end

-- next_fence returns max(last + 1, now in microseconds): it grows on after the key was lost, too.
local function next_fence(last)
  local now = redis.call('TIME')
  return math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))
end

-- keep_fence stores a fence.
local function keep_fence(key, fence, ttl)
  redis.call('SET', key, string.format('%.0f', fence), 'PX', ttl)
end
