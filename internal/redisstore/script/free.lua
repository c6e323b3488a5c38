-- free.lua: the ordinary release of an exclusive lock, in as few commands as can be. It is put in front of scripts, after
-- news.lua and before any library, and is no script by itself.

-- free ends the hold of a name if it is the only one, is the owner's, and has this fence, '0' for any. It returns how
-- many heard of it, or, if it did nothing, nil. Redis deletes a hash without fields, with its TTL.
local function free(name, token, channel, owner, fence)
  local last = redis.pcall('GET', token)
  if fence == '0' and type(last) == 'string' then fence = last end
  if last ~= fence or redis.pcall('HLEN', name) ~= 1 then return end
  if redis.call('HDEL', name, owner) == 0 then return end
  local heard = redis.call('PUBLISH', channel, '0')
  if heard > 0 then news(name, 'released', fence, 1) end
  return heard
end
