-- limit_semaphore.lua: set how many permits a semaphore has.
-- KEYS    as in acquire_all.lua, of a semaphore
-- ARGV[1] limit   ARGV[2] TTL of the fence key in ms   ARGV[3] redisson_sc:{<name>}
-- Returns {1, limit before}, 0 if there was none.
-- Safe to run twice: the second run adds the difference of the limits, which is 0. Reads first. When memory is full,
-- the first write that Redis can refuse fails.
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3], channel = ARGV[3]}
local limit = tonumber(ARGV[1])
local bad = sem_misfit(s)
if bad then return bad end
local available, out, now = s.available, redis.call('ZCARD', s.out), now_ms()
if redis.call('EXISTS', s.token) == 1 then
  live_on(s.token, ARGV[2])
else
  keep_fence(s.token, next_fence(0), ARGV[2]) -- says whose the number is
end
if not available then
  redis.call('SET', s.name, limit, 'PX', LIMIT_LIVES)
  redis.call('DEL', s.out) -- permits of one that is forgotten
  return {1, 0}
end
local before = available + out
local purged = sem_purge(s, now) -- moves permits from the one to the other
available = purged or available
if limit ~= before then available = redis.call('INCRBY', s.name, limit - before) end
sem_live(s, now)
if purged or limit > before then sem_tell(s, available) end
return {1, before}
