-- limit_semaphore.lua: set how many permits a semaphore has.
-- KEYS    as in acquire_semaphore.lua
-- ARGV[1] limit   ARGV[2] TTL of the fence key in ms   ARGV[3] redisson_sc:{<name>}
-- Returns {1, limit before}, 0 if there was none.
-- Safe to run twice: what is added is the difference, which is 0 then.
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3], channel = ARGV[3]}
local limit = tonumber(ARGV[1])
local available, bad = sem_available(s)
bad = bad or misfit(s.out, 'zset')
if bad then return bad end
local out = redis.call('ZCARD', s.out)
if not available then
  redis.call('SET', s.name, limit, 'PX', ARGV[2])
  redis.call('DEL', s.out) -- permits of one that is forgotten
  return {1, 0}
end
local before = available + out
local purged = sem_purge(s, now_ms()) -- moves permits from the one to the other
available = purged or available
if limit ~= before then available = redis.call('INCRBY', s.name, limit - before) end
sem_live(s, ARGV[2])
if purged or limit > before then sem_tell(s, available) end
return {1, before}
