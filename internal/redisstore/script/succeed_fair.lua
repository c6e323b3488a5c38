-- succeed_fair.lua: have another owner stand where a fair waiter stands, or hold what it holds.
-- KEYS    as in acquire_fair.lua
-- ARGV[1] the owner so far   ARGV[2] the owner from now on, which is new   ARGV[3] for how many ms its place lives at least
-- Returns {1}, always.
-- Safe to run twice, and late: then the first owner has nothing any more. What it has in the queue and as a hold is moved apart: when
-- memory is full at the one, the other is moved by the repetition.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
}
local from, to, ends = ARGV[1], ARGV[2], now_ms() + tonumber(ARGV[3])
local bad = plain_misfit(f) or fair_misfit(f)
if bad then return bad end

local count = plain_hold(f.name, from)
if count then
  redis.call('HSET', f.name, to, count)
  redis.call('HDEL', f.name, from)
end
local at = not f.empty and redis.call('LPOS', f.queue, from)
if at and not redis.call('ZSCORE', f.timeouts, to) then
  local dies = redis.call('ZSCORE', f.timeouts, from)
  redis.call('LSET', f.queue, at, to)
  redis.call('ZADD', f.places, math.max(ends, tonumber(redis.call('ZSCORE', f.places, from) or 0)), to)
  redis.call('ZADD', f.timeouts, math.max(ends, tonumber(dies or 0)), to)
  redis.call('PEXPIRE', f.places, math.max(redis.call('PTTL', f.places), 2 * tonumber(ARGV[3])))
  redis.call('ZREM', f.places, from)
  redis.call('ZREM', f.timeouts, from)
  fair_bound(f)
end
return {1}
