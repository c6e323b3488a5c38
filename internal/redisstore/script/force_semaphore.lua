-- force_semaphore.lua: take all permits back, whosever they are.
-- KEYS    as in acquire_all.lua, of a semaphore
-- ARGV[1] lockd:control   ARGV[2] message that tells all replicas of lockd   ARGV[3] redisson_sc:{<name>}
-- ARGV[4] ms since 1970 after which nothing is done
-- Returns 1 if any were out, 0 if not, -2 if it is too late.
-- Safe to run twice: a second run finds none and tells nobody. It never runs late: others may have the permits by then.
-- Works when memory is full.
if now_ms() > tonumber(ARGV[4]) then return -2 end
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3], channel = ARGV[3]}
local available, bad = sem_available(s)
if bad then return bad end
local purged = available and sem_purge(s, now_ms())
local out = redis.call('ZCARD', s.out)
redis.call('UNLINK', s.out)
if not available or out == 0 then
  if purged then sem_tell(s, purged) end
  return 0
end
sem_tell(s, redis.call('INCRBY', s.name, out), 'forced', '0')
redis.call('publish', ARGV[1], ARGV[2]) -- to all, see script.go
return 1
