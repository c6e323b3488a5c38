-- acquire.lua: take a name for an owner, once or again.
-- KEYS[1] <name>                       hash: owner -> hold count, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- ARGV[1] owner   ARGV[2] hold count afterwards   ARGV[3] TTL in ms
-- ARGV[4] the fence the owner has; with count 1 the least it is to have, 0 for the clock
-- ARGV[5] TTL of the fence key in ms
-- Returns {1, fence, ttl_ms} if the owner holds the name afterwards, {0, pttl_ms, owner} if another does,
--         {-1} if it should hold it and does not, {-2} if it holds it with another fence.
-- Safe to run twice: the second run returns the same fence and the same count. Reads first, writes last; the first
-- write is the one that fails when memory is full, so then nothing was done.

-- The ordinary case, a free name, stands before the library: to build that costs more than a command.
if ARGV[2] == '1' and redis.call('EXISTS', KEYS[1]) == 0 then
  local now, text = tonumber(ARGV[4]), ARGV[4]
  if now == 0 then
    now = redis.call('TIME')
    now = now[1] * 1000000 + now[2]
    text = string.format('%.0f', now)
  end
  local fence, bad = take(KEYS[1], KEYS[2], ARGV[1], ARGV[3], ARGV[5], now, text)
  return bad or {1, fence, tonumber(ARGV[3])}
end

-- library: shape fence plain exclusive
return exclusive_acquire({name = KEYS[1], token = KEYS[2]}, {
  owner = ARGV[1], count = ARGV[2], ttl = tonumber(ARGV[3]), fence = ARGV[4], fence_ttl = ARGV[5],
})
