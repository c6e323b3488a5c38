-- take.lua: the ordinary acquisition of an exclusive lock, in as few commands as can be: each costs more than what it does. It
-- is put in front of scripts, after advance.lua and before any library, and is no script by itself.

-- take takes a name at which there is nothing, and returns its fence, or nil and an error reply. now is as in advance_fence.
local function take(name, token, owner, ttl, fence_ttl, now, text)
  local fence, bad = advance_fence(token, fence_ttl, now, text)
  if bad then return nil, bad end
  redis.call('HSET', name, owner, '1')
  redis.call('PEXPIRE', name, ttl)
  return fence
end
