-- force_fair.lua: free a fair lock whoever holds it. The queue stays.
-- KEYS    as in acquire_all.lua, of a fair lock
-- ARGV[1] lockd:control   ARGV[2] message that tells all replicas of lockd   ARGV[3] redisson_lock__channel:{<name>}
-- ARGV[4] ms since 1970 after which nothing is done
-- Returns 1 if it was held, 0 if not, -2 if it is too late, -3 if it is a read-write lock.
-- Safe to run twice: a second run finds nothing and tells nobody. It never runs late: somebody else may have the name by then.
if now_ms() > tonumber(ARGV[4]) then return -2 end
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
  channel = ARGV[3],
}
local bad = lock_misfit(f.name)
if bad then return bad end
if fair_misfit(f) then f.empty = true end -- a lock is freed whatever is where its queue should be
local fields = redis.call('HLEN', f.name)
local head, first = fair_purge(f, now_ms(), false)
if fields == 0 or redis.call('HEXISTS', f.name, 'mode') == 1 then
  fair_news(f, first)
  return fields == 0 and 0 or -3
end
local fence = fence_text(f.name, f.token)
redis.call('DEL', f.name)
fair_freed(f, head, 'forced', fence)
redis.call('publish', ARGV[1], ARGV[2]) -- to all, see script.go
return 1
