-- take.lua: the ordinary acquisition of an exclusive lock, in as few commands as possible: the call of a command costs
-- more than its work. It is put in front of scripts, after advance.lua and before any library, and is no script by
-- itself.

-- take takes a name that is free, and returns its fence, or nil and an error reply. now and text are as in
-- advance_fence.
local function take(name, token, owner, ttl, fence_ttl, now, text)
  local fence, bad = advance_fence(token, fence_ttl, now, text)
  if bad then return nil, bad end
  redis.call('HSET', name, owner, '1')
  redis.call('PEXPIRE', name, ttl)
  return fence
end
