-- overlaps.lua: note that a prefix of names is in use, and return the others in use that overlap with it.
-- KEYS[1] lockd:prefixes   sorted set: prefix -> until when it is in use, ms since 1970; with a TTL
-- ARGV[1] the prefix   ARGV[2] for how many ms it is in use
-- Returns the others that begin with this prefix, or with which this prefix begins.
-- Safe to run twice, and late: then the prefix counts as in use for a while.
local now, mine, ttl = now_ms(), ARGV[1], tonumber(ARGV[2])
if type(redis.pcall('ZCARD', KEYS[1])) == 'table' then return other_kind('what prefixes are in use is no sorted set') end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now) -- allowed when memory is full, and opens the way
redis.call('ZADD', KEYS[1], now + ttl, mine)
redis.call('PEXPIRE', KEYS[1], ttl)
local found = {}
for _, other in ipairs(redis.call('ZRANGE', KEYS[1], 0, 999)) do
  local n = math.min(#other, #mine)
  if other ~= mine and string.sub(other, 1, n) == string.sub(mine, 1, n) then found[#found + 1] = other end
end
return found
