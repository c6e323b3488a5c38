-- leave_fair.lua: give up the places of fair waiters, and tell the one that is next because of that. In a long queue
-- one call does only a part, and the next one goes on.
-- KEYS    as in acquire_all.lua, of a fair lock
-- ARGV[1] redisson_lock__channel:{<name>}
-- ARGV[2] from which place to read the queue towards its front, -1 in the first call
-- ARGV[3...] the waiters, at most 500
-- Returns {1} if all have left, else {0, ARGV[2] of the next call}.
-- Safe to run twice: a second run finds nobody and tells nobody. Works when memory is full: the first write is one that is
-- allowed then, and opens the way for the others.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
  channel = ARGV[1],
}
-- Up to this many are looked for one by one. Redis goes over the queue for each.
local ONE_BY_ONE = 16
-- More than that are mostly near each other. So, LOOKS times, one is looked for, and then others AROUND it. For the
-- rest the queue is read from its end, READS times READ places in one call.
local LOOKS, AROUND, READ, READS = 4, 600, 1000, 3
-- In one call Redis goes over this many places to look for waiters, unless one waiter alone takes more. It does 30 of
-- them in 1 µs.
local STEPS = 40000
-- This takes the place of those who leave, until all of a call are removed by one command. It is nobody's owner.
local NOBODY = ''

local length = 0 -- of the queue
local leaving, left = {}, 0
local found, low, high = {}, nil, nil -- whose places are marked, and between which they are

-- mark puts NOBODY in the place of those who leave, from one place of the queue to another.
local function mark(from, to)
  for i, owner in ipairs(redis.call('LRANGE', f.queue, from, to)) do
    if leaving[owner] then
      local at = from + i - 1
      redis.call('LSET', f.queue, at, NOBODY)
      leaving[owner], left, found[#found + 1] = nil, left - 1, owner
      low, high = math.min(low or at, at), math.max(high or at, at)
    end
  end
end

-- looks is how often this call may go over the whole queue, most at most.
local function looks(most) return math.max(1, math.min(most, math.floor(STEPS / length))) end

-- look_around marks some of owners, and others who leave near them.
local function look_around(owners)
  local more = looks(LOOKS)
  for _, owner in ipairs(owners) do
    if leaving[owner] and more > 0 then
      more = more - 1
      local at = redis.call('LPOS', f.queue, owner)
      if at then
        mark(math.max(0, at - AROUND), at + AROUND)
      else
        leaving[owner], left, found[#found + 1] = nil, left - 1, owner
      end
    end
  end
end

-- forget_many takes waiters of ours out of the queue, as far as one call goes, and returns where the next call goes on,
-- nil if all is done. It never writes the queue anew, which took a tenth of a second for 50,000 waiters.
local function forget_many(owners, from)
  if from < 0 then
    look_around(owners)
    from = left > ONE_BY_ONE and length - 1 or -1
  else
    for _ = 1, READS do
      if left > 0 and from >= 0 then
        mark(math.max(0, from - READ + 1), from)
        from = from - READ
      end
    end
    if from < 0 then -- those who are left are not in the queue
      for owner in pairs(leaving) do found[#found + 1] = owner end
      left = 0
    end
  end
  if #found > 0 then
    redis.call('ZREM', f.places, unpack(found))
    redis.call('ZREM', f.timeouts, unpack(found))
  end
  if high then redis.call('LREM', f.queue, high < length - low and #found or -#found, NOBODY) end
  fair_bound(f)
  return left > 0 and from or nil
end

-- forget_few is forget_many for a few waiters.
local function forget_few(owners)
  local n = looks(ONE_BY_ONE)
  for i = 1, math.min(n, #owners) do fair_forget(f, owners[i]) end
  return #owners > n and -1 or nil
end

local bad = fair_misfit(f)
if bad then return bad end
if f.empty then return {1} end

local all = {}
for i = 3, #ARGV do all[i - 2] = ARGV[i] end
local queued = redis.call('ZMSCORE', f.timeouts, unpack(all))
local living = redis.call('ZMSCORE', f.places, unpack(all))
local there = {}
for i, owner in ipairs(all) do
  if (queued[i] or living[i]) and not leaving[owner] then
    there[#there + 1], leaving[owner], left = owner, true, left + 1
  end
end

local first, go_on = redis.call('LINDEX', f.queue, 0), nil
length = math.max(redis.call('LLEN', f.queue), 1)
if #there > ONE_BY_ONE then
  go_on = forget_many(there, tonumber(ARGV[2]))
elseif #there > 0 then
  go_on = forget_few(there)
end
fair_purge(f, now_ms(), false)
fair_news(f, first)
if go_on then return {0, go_on} end
return {1}
