-- succeed_fair.lua: give another owner the first place of some fair waiters, and the hold that one of them has.
-- KEYS    as in acquire_all.lua, of a fair lock
-- ARGV[1] the owner from now on, which is new   ARGV[2] for how many ms its place lives at least   ARGV[3...] the owners so far
-- Returns {1, how many are before it}, -1 if it has no place.
-- Safe to run twice, and late: then the owners so far have nothing any more. The hold and the place are moved
-- separately: if memory is full at the second, the repetition moves that.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
}
local to, ends = ARGV[1], now_ms() + tonumber(ARGV[2])
local bad = plain_misfit(f) or fair_misfit(f)
if bad then return bad end

local from, first = nil, -1 -- whose place is in front of those of the others, and where that is
local queued = not f.empty and redis.call('ZSCORE', f.timeouts, to)
local goes_on = not f.empty and not queued
for i = 3, #ARGV do
  if plain_hold(f.name, ARGV[i]) then
    redis.call('HSET', f.name, to, 1)
    redis.call('HDEL', f.name, ARGV[i])
  end
  local at = goes_on and redis.call('ZSCORE', f.timeouts, ARGV[i]) and redis.call('LPOS', f.queue, ARGV[i])
  if at and (not from or at < first) then from, first = ARGV[i], at end
end
if from then
  local dies = redis.call('ZSCORE', f.timeouts, from)
  redis.call('LSET', f.queue, first, to)
  redis.call('ZADD', f.places, math.max(ends, tonumber(redis.call('ZSCORE', f.places, from) or 0)), to)
  redis.call('ZADD', f.timeouts, math.max(ends, tonumber(dies or 0)), to)
  redis.call('ZREM', f.places, from)
  redis.call('ZREM', f.timeouts, from)
  fair_bound(f)
  for i = 3, #ARGV do
    if ARGV[i] ~= from then fair_forget(f, ARGV[i]) end
  end
elseif queued then
  first = redis.call('LPOS', f.queue, to) or -1
end
return {1, first}
