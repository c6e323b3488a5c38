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
-- So many are looked for in the queue one by one: to look for each of 500 in a queue of 100,000 would keep everybody else
-- waiting for a second.
local ONE_BY_ONE = 16
-- The others are mostly near each other. So one is looked for, and the others around it, this many times at most. For those
-- that are still not found, the queue is read from its end.
local LOOKS, AROUND, READ = 8, 600, 1000
-- What the places of those who leave hold until all are taken out in one go. It is nobody's owner.
local NOBODY = ''

-- mark puts NOBODY in the place of those who leave between two places of the queue, and returns how many it found.
local function mark(leaving, from, to)
  local found = 0
  for i, owner in ipairs(redis.call('LRANGE', f.queue, from, to)) do
    if leaving[owner] then
      redis.call('LSET', f.queue, from + i - 1, NOBODY)
      leaving[owner] = nil
      found = found + 1
    end
  end
  return found
end

-- forget_many takes waiters of ours out of the queue. It neither reads all of a long queue nor writes it anew: that took a
-- tenth of a second for 50,000.
local function forget_many(owners)
  redis.call('ZREM', f.places, unpack(owners))
  redis.call('ZREM', f.timeouts, unpack(owners))
  local leaving, left, looks = {}, #owners, 0
  for _, owner in ipairs(owners) do leaving[owner] = true end
  for _, owner in ipairs(owners) do
    if leaving[owner] and looks < LOOKS then
      looks = looks + 1
      local at = redis.call('LPOS', f.queue, owner)
      if at then
        left = left - mark(leaving, math.max(0, at - AROUND), at + AROUND)
      else
        leaving[owner] = nil
        left = left - 1
      end
    end
  end
  local to = redis.call('LLEN', f.queue) - 1
  while left > 0 and to >= 0 do
    left = left - mark(leaving, math.max(0, to - READ + 1), to)
    to = to - READ
  end
  redis.call('LREM', f.queue, 0, NOBODY)
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
