-- declare.lua: keep a text for the names with a prefix, unless another one is kept.
-- KEYS[1] lockd:config:<prefix>   the text that is kept, with a TTL
-- ARGV[1] the caller's text    ARGV[2] the TTL in ms
-- Returns the text that is kept afterwards. If it is the caller's, its TTL begins anew.
-- Safe to run twice. Reads first, and writes once.
local kept = redis.call('GET', KEYS[1])
if not kept then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return ARGV[1]
end
if kept == ARGV[1] then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return kept
