-- acquire.lua: take a name for an owner, once or again.
-- KEYS[1] <name>                       hash: owner -> 1, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- ARGV[1] owner   ARGV[2] TTL in ms   ARGV[3] its least fence, 0 for the clock   ARGV[4] TTL of the fence key in ms
-- Returns {1, fence, ttl_ms} if the owner holds the name afterwards, {0, pttl_ms, owner} if another does.
-- Safe to run twice: the second run returns the same fence. Reads first, writes last. When memory is full the first
-- write fails, so nothing was done.

-- The ordinary case, a free name, stands before the library, because to build the library costs more than a command.
if redis.call('EXISTS', KEYS[1]) == 0 then
  local now, text = tonumber(ARGV[3]), ARGV[3]
  if now == 0 then
    now = redis.call('TIME')
    now = now[1] * 1000000 + now[2]
    text = string.format('%.0f', now)
  end
  local fence, bad = take(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[4], now, text)
  return bad or {1, fence, tonumber(ARGV[2])}
end

-- library: news shape fence plain exclusive
return exclusive_acquire({name = KEYS[1], token = KEYS[2]}, {
  owner = ARGV[1], ttl = tonumber(ARGV[2]), fence = ARGV[3], fence_ttl = ARGV[4],
})
