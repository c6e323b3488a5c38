-- leave_fair.lua: give up the places of fair waiters, and tell the one that is next because of that.
-- KEYS    as in acquire_fair.lua
-- ARGV[1] redisson_lock__channel:{<name>}   ARGV[2...] the waiters
-- Returns {1}, always.
-- Safe to run twice: a second run finds nobody and tells nobody. Works when memory is full.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
  channel = ARGV[1],
}
local first = redis.call('LINDEX', f.queue, 0)
for i = 2, #ARGV do fair_forget(f, ARGV[i]) end
fair_purge(f, now_ms(), false)
fair_news(f, first)
return {1}
