-- declare.lua: say how the locks with a prefix are kept, unless that is said already.
-- KEYS[1] lockd:config:<prefix>   what is said, with a TTL
-- ARGV[1] what the caller says    ARGV[2] the TTL in ms
-- Returns what is said afterwards. Who says the same prolongs it.
-- Safe to run twice. Reads first, and writes once.
local kept = redis.call('GET', KEYS[1])
if not kept then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return ARGV[1]
end
if kept == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return kept
