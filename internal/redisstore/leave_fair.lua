-- leave_fair.lua: give up the places of fair waiters, and tell the one that is next because of that.
-- KEYS    as in acquire_fair.lua
-- ARGV[1] redisson_lock__channel:{<name>}   ARGV[2...] the waiters, at most 500
-- Returns {1}, always.
-- Safe to run twice: a second run finds nobody and tells nobody. Works when memory is full: the first write is one that is
-- allowed then, and opens the way for the others.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
  channel = ARGV[1],
}
-- So many are looked for in the queue one by one. For more it is gone through once: to look for each of 500 in a queue of
-- 100,000 kept everybody else waiting for a second.
local ONE_BY_ONE = 16

-- forget_many takes waiters of ours out of the queue, all at once.
local function forget_many(owners)
  redis.call('ZREM', f.places, unpack(owners))
  redis.call('ZREM', f.timeouts, unpack(owners))
  local leaving, rest = {}, {}
  for _, owner in ipairs(owners) do leaving[owner] = true end
  for _, owner in ipairs(redis.call('LRANGE', f.queue, 0, -1)) do
    if not leaving[owner] then rest[#rest + 1] = owner end
  end
  redis.call('DEL', f.queue)
  for i = 1, #rest, 1000 do redis.call('RPUSH', f.queue, unpack(rest, i, math.min(i + 999, #rest))) end
  fair_bound(f)
end

local bad = fair_misfit(f)
if bad then return bad end
if f.empty then return {1} end

local all = {}
for i = 2, #ARGV do all[i - 1] = ARGV[i] end
local queued = redis.call('ZMSCORE', f.timeouts, unpack(all))
local living = redis.call('ZMSCORE', f.places, unpack(all))
local there = {}
for i, owner in ipairs(all) do
  if queued[i] or living[i] then there[#there + 1] = owner end
end

local first = redis.call('LINDEX', f.queue, 0)
if #there > ONE_BY_ONE then
  forget_many(there)
else
  for _, owner in ipairs(there) do fair_forget(f, owner) end
end
fair_purge(f, now_ms(), false)
fair_news(f, first)
return {1}
