-- free.lua: the ordinary release of an exclusive lock, in as few commands as can be. It is put in front of scripts, after
-- news.lua and before any library, and is no script by itself.

-- free ends the only hold of a name, which is the owner's and has this fence, '0' for any, and returns how many heard of it. If that is not
-- how it is, it returns nothing and has done nothing. A hash without fields is no more, and its TTL neither.
local function free(name, token, channel, owner, fence)
  local last = redis.pcall('GET', token)
  if fence == '0' and type(last) == 'string' then fence = last end
  if last ~= fence or redis.pcall('HLEN', name) ~= 1 then return end
  if redis.call('HDEL', name, owner) == 0 then return end
  local heard = redis.call('PUBLISH', channel, '0')
  if heard > 0 then news(name, 'released', fence, 1) end
  return heard
end
