-- free.lua: the ordinary release of an exclusive lock, in as few commands as can be. It is put in front of scripts, after
-- news.lua and before any library, and is no script by itself.

-- free ends the only hold of a name, which is the owner's and has this fence, and returns how many heard of it. If that is not
-- how it is, it returns nothing and has done nothing. A hash without fields is no more, and its TTL neither.
local function free(name, token, channel, owner, fence)
  if redis.pcall('HLEN', name) ~= 1 or redis.pcall('GET', token) ~= fence then return end
  if redis.call('HDEL', name, owner) == 0 then return end
  local heard = redis.call('PUBLISH', channel, '0')
  if heard > 0 then news(name, 'released', fence, 1) end
  return heard
end
