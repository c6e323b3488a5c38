-- force.lua: free a name whoever holds it.
-- KEYS[1] <name>                          hash: owner -> hold count, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock__channel:{<name>} channel for those who wait
-- KEYS[3] redisson_lock_token:{<name>}    last fence handed out
-- ARGV[1] lockd:control   ARGV[2] message that tells all replicas of lockd
-- ARGV[3] ms since 1970 after which nothing is done
-- Returns 1 if it was held, 0 if not, -2 if it is too late, -3 if it is a read-write lock.
-- Safe to run twice: a second run finds nothing and tells nobody. It never runs late: somebody else may have the name by then.
if now_ms() > tonumber(ARGV[3]) then return -2 end
local bad = lock_misfit(KEYS[1])
if bad then return bad end
if redis.call('HLEN', KEYS[1]) == 0 then return 0 end
if redis.call('HEXISTS', KEYS[1], 'mode') == 1 then return -3 end
local fence = fence_text(KEYS[1], KEYS[3])
redis.call('DEL', KEYS[1])
tell(KEYS[1], KEYS[2], '0', 'forced', fence)
redis.call('publish', ARGV[1], ARGV[2]) -- to all, see script.go
return 1
