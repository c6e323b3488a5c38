-- fair.lua: the queue of a fair lock. It is put in front of scripts, after clock.lua, fence.lua and plain.lua, and is no
-- script by itself. The hold is that of plain.lua.
--
-- f has the keys: name, token, and
--   queue     Redisson's list of waiters, the next one first
--   timeouts  Redisson's sorted set: waiter -> ms since 1970 when Redisson takes it for dead
--   places    our sorted set: those waiters that are lockd's -> ms since 1970 until which their place lives
--   suspects  our hash: a waiter of Redisson that nobody seems to be behind -> ms since 1970 when that was first seen; and ''
--             -> when waiters were last looked at
-- and channel: a waiter's own channel is that, a colon, and its owner.
--
-- A waiter of Redisson hears 0 on its own channel when the name may be taken. Waiters of lockd hear the news channel of
-- the name.
--
-- fair_misfit sets empty if there is none of these four keys.

-- When Redisson grants, it moves all deadlines of the queue forward by its wait time: by default, this many ms.
local GRANT_SHIFT = 300000
-- A waiter of Redisson subscribes to its channel nearly as soon as it queues. If nobody is subscribed for this many ms,
-- it is dead.
local SILENT_FOR = 4000
-- Every LOOK_EVERY ms at most, a script looks which waiters are silent. What it saw counts for LOOK_COUNTS ms after the
-- last look.
local LOOK_EVERY, LOOK_COUNTS = 500, 10000
-- This many of the first waiters are looked at. Those behind them are looked at when they have come nearer.
local LOOK_AT = 1000
local LOOKED = ''
-- The places, and a queue in which only lockd waits, end this many ms after the last sign of a waiter of lockd. It is
-- long because waiters of Redisson may come meanwhile.
local QUEUE_LIVES = 600000
-- One script takes at most this many dead out of queues: 500 of ours, or 45 of Redisson's, which cost more. The next
-- script goes on.
local purge_left = 500

-- suspects_misfit returns an error reply if fields, a reply with any field of the suspects, is an error, or the field
-- is neither a waiter nor LOOKED.
local function suspects_misfit(fields)
  if fields[1] ~= LOOKED then return owner_misfit(fields, 'list of suspects') end
end

-- fair_misfit returns an error reply if something else is at the keys of the queue.
local function fair_misfit(f)
  f.empty = redis.call('EXISTS', f.queue, f.timeouts, f.places, f.suspects) == 0
  if f.empty then return nil end
  return owner_misfit(redis.pcall('LINDEX', f.queue, 0), 'queue')
    or owner_misfit(redis.pcall('ZRANGE', f.timeouts, 0, 0), 'list of deadlines')
    or owner_misfit(redis.pcall('ZRANGE', f.places, 0, 0), 'list of places')
    or suspects_misfit(redis.pcall('HRANDFIELD', f.suspects, 1))
end

-- fair_theirs is how many waiters of Redisson there are.
local function fair_theirs(f)
  return math.max(0, redis.call('LLEN', f.queue) - redis.call('ZCARD', f.places))
end

-- fair_place is until when a waiter of ours has its place. ends is what places has for it: without that the place ended
-- long ago, and fair_place is 0. It is false for a waiter of Redisson.
local function fair_place(owner, ends) return ends or of_lockd(owner) and 0 end

-- fair_ours is fair_place of one waiter.
local function fair_ours(f, owner) return fair_place(owner, redis.call('ZSCORE', f.places, owner)) end

-- fair_silent returns the waiters of Redisson among owners to whose channels nobody is subscribed.
local function fair_silent(f, owners)
  local channels, silent = {}, {}
  for i, owner in ipairs(owners) do channels[i] = f.channel .. ':' .. owner end
  local heard = redis.call('PUBSUB', 'NUMSUB', unpack(channels))
  local sharded = redis.pcall('PUBSUB', 'SHARDNUMSUB', unpack(channels)) -- since Redis 7
  for i, owner in ipairs(owners) do
    local listens = heard[2 * i] > 0 or not sharded.err and sharded[2 * i] > 0
    if not listens then silent[#silent + 1] = owner end
  end
  return silent
end

-- fair_look notes which waiters of Redisson are silent, not only the first: else each dead one that comes to the head
-- would delay those behind it by SILENT_FOR again.
local function fair_look(f, now)
  if fair_theirs(f) == 0 then return end
  local last = redis.call('HGET', f.suspects, LOOKED)
  if last and tonumber(last) + LOOK_EVERY > now then return end
  local next, theirs = redis.call('LRANGE', f.queue, 0, LOOK_AT - 1), {}
  local ours = redis.call('ZMSCORE', f.places, unpack(next))
  for i, owner in ipairs(next) do
    if not fair_place(owner, ours[i]) then theirs[#theirs + 1] = owner end
  end
  local since, over = {}, redis.call('HGETALL', f.suspects)
  for i = 1, #over, 2 do since[over[i]] = over[i + 1] end
  local notes = {LOOKED, now}
  since[LOOKED] = nil
  for _, owner in ipairs(fair_silent(f, theirs)) do
    notes[#notes + 1], notes[#notes + 2] = owner, since[owner] or now
    since[owner] = nil
  end
  -- When memory is full nothing is noted, and nothing else is kept from being done.
  if type(redis.pcall('HSET', f.suspects, unpack(notes))) == 'table' then return end
  over = {}
  for owner in pairs(since) do over[#over + 1] = owner end -- who was heard, or left
  if #over > 0 then redis.call('HDEL', f.suspects, unpack(over)) end
  redis.call('PEXPIRE', f.suspects, LOOK_COUNTS)
end

-- fair_dead says whether a waiter at the head of the queue is dead.
local function fair_dead(f, owner, now)
  local ends = fair_ours(f, owner)
  if ends then return tonumber(ends) <= now end
  local since = redis.call('HGET', f.suspects, owner)
  if #fair_silent(f, {owner}) == 0 then
    if since then redis.call('HDEL', f.suspects, owner) end
    return false
  end
  ends = redis.call('ZSCORE', f.timeouts, owner)
  return ends and tonumber(ends) <= now or since and tonumber(since) + SILENT_FOR <= now
end

-- fair_bury takes the first waiter, which is known to be dead, out of the queue, with the dead of ours right behind it.
local function fair_bury(f, now)
  local next = redis.call('LRANGE', f.queue, 0, 99)
  local ends, n = redis.call('ZMSCORE', f.places, unpack(next)), 1
  local function dead(i)
    local place = next[i] and fair_place(next[i], ends[i])
    return place and tonumber(place) <= now
  end
  while dead(n + 1) do n = n + 1 end
  redis.call('LTRIM', f.queue, n, -1)
  redis.call('ZREM', f.timeouts, unpack(next, 1, n))
  redis.call('ZREM', f.places, unpack(next, 1, n))
  redis.call('HDEL', f.suspects, unpack(next, 1, n))
  purge_left = purge_left - n - 10
end

-- fair_sweep takes away places that have ended, of waiters that Redisson took out of the queue. For each of these,
-- fair_theirs would count one waiter of Redisson too few.
local function fair_sweep(f, now)
  local over = redis.call('ZRANGE', f.places, '-inf', now, 'BYSCORE', 'LIMIT', 0, 100)
  local queued, gone = #over > 0 and redis.call('ZMSCORE', f.timeouts, unpack(over)), {}
  for i, owner in ipairs(over) do
    if not queued[i] then gone[#gone + 1] = owner end
  end
  if #gone > 0 then redis.call('ZREM', f.places, unpack(gone)) end
end

-- fair_purge takes the dead out of the head of the queue, and returns the head afterwards and the head before. With
-- watch it calls fair_look first.
local function fair_purge(f, now, watch)
  if f.empty then return nil, nil end
  fair_sweep(f, now)
  if watch then fair_look(f, now) end
  local first = redis.call('LINDEX', f.queue, 0)
  local head = first
  while head and purge_left > 0 and fair_dead(f, head, now) do
    fair_bury(f, now)
    head = redis.call('LINDEX', f.queue, 0)
  end
  return head, first
end

-- fair_bound gives the queue a TTL, so that a replica that died leaves nothing for ever. But waiters of Redisson give
-- no signs of life, and rely on the queue: while there are any it has no TTL. The places always have one, because
-- Redisson never takes them away. In a queue of lockd alone they live as long as the queue, or its waiters would count
-- as Redisson's.
local function fair_bound(f)
  redis.call('PEXPIRE', f.places, QUEUE_LIVES)
  if fair_theirs(f) > 0 then
    redis.call('PERSIST', f.queue)
    redis.call('PERSIST', f.timeouts)
  else
    redis.call('PEXPIRE', f.queue, QUEUE_LIVES)
    redis.call('PEXPIRE', f.timeouts, QUEUE_LIVES)
  end
end

-- fair_forget takes a waiter of ours out of the queue, and says whether it was there.
local function fair_forget(f, owner)
  if f.empty then return false end
  local ours = redis.call('ZREM', f.places, owner)
  if redis.call('ZREM', f.timeouts, owner) + ours == 0 then return false end
  redis.call('LREM', f.queue, 1, owner)
  fair_bound(f)
  return true
end

-- fair_tell tells a waiter that it may take the name.
local function fair_tell(f, owner)
  if fair_ours(f, owner) then
    news(f.name, 'turn', '0', 0, owner)
  else
    redis.call('PUBLISH', f.channel .. ':' .. owner, '0')
  end
end

-- fair_freed tells the head of the queue, which may be nil, and all watchers that a hold ended and the name is free.
-- what and fence are as for news. It returns how many heard it.
local function fair_freed(f, head, what, fence)
  if not head then return tell(f.name, f.channel, '0', what, fence) end
  if fair_ours(f, head) then return news(f.name, what, fence, 0, head) end
  local heard = redis.call('PUBLISH', f.channel .. ':' .. head, '0')
  news(f.name, what, fence, 0)
  return heard
end

-- fair_turn tells the head of the queue that it is next when the present hold ends, after ttl ms at the latest. Waiters
-- of Redisson find that out by themselves.
local function fair_turn(f, ttl)
  if f.empty then return end
  local head = redis.call('LINDEX', f.queue, 0)
  if head and fair_ours(f, head) then news(f.name, 'turn', string.format('%.0f', math.max(ttl, 1)), 0, head) end
end

-- fair_news tells the head of the queue that it is next, or may take the name, unless it was the head before.
local function fair_news(f, first)
  if f.empty then return end
  local head = redis.call('LINDEX', f.queue, 0)
  if not head or head == first then return end
  local left = redis.call('PTTL', f.name)
  if left == -2 then
    fair_tell(f, head)
  elseif left >= 0 then
    fair_turn(f, left)
  end
end

-- fair_before returns how many waiters of Redisson are before each owner in the queue; for an owner far behind, how
-- many there are in all.
local function fair_before(f, owners)
  local all, near, counts = fair_theirs(f), {}, {}
  if all > 0 then
    local next = redis.call('LRANGE', f.queue, 0, 49)
    local ours = redis.call('ZMSCORE', f.places, unpack(next))
    local n = 0
    for i, owner in ipairs(next) do
      near[owner] = n
      if not fair_place(owner, ours[i]) then n = n + 1 end
    end
  end
  for i, owner in ipairs(owners) do counts[i] = near[owner] or all end
  return counts
end

-- fair_note has the places of owners live for place ms. before has, for each, how many waiters of Redisson are before
-- it.
local function fair_note(f, owners, before, now, place)
  f.empty = false
  local places, timeouts = {}, {}
  for i, owner in ipairs(owners) do
    places[2 * i - 1], places[2 * i] = now + place, owner
    timeouts[2 * i - 1], timeouts[2 * i] = now + place + GRANT_SHIFT * before[i], owner
  end
  redis.call('ZADD', f.places, 'GT', unpack(places)) -- a place is never shortened
  redis.call('ZADD', f.timeouts, unpack(timeouts))
  fair_bound(f)
end

-- fair_join puts owners behind all others and returns how many are before the first of them.
local function fair_join(f, owners, now, place)
  local length, theirs, before = redis.call('LLEN', f.queue), fair_theirs(f), {}
  for i = 1, #owners do before[i] = theirs end
  redis.call('RPUSH', f.queue, unpack(owners))
  fair_note(f, owners, before, now, place)
  return length
end

-- fair_stay prolongs the places of owners that are in the queue.
local function fair_stay(f, owners, now, place)
  -- A write that changes nothing and is allowed when memory is full; it opens the way for those that need none.
  redis.call('ZREM', f.timeouts, '')
  fair_note(f, owners, fair_before(f, owners), now, place)
end

-- fair_return puts owners in front of all others, because they were taken out of the queue although their places lived.
local function fair_return(f, owners, now, place)
  local before = {}
  for i = #owners, 1, -1 do
    redis.call('LPUSH', f.queue, owners[i])
    before[i] = 0
  end
  fair_note(f, owners, before, now, place)
end

-- fair_ahead is how many waiters are before an owner, or would be.
local function fair_ahead(f, owner)
  return redis.call('LPOS', f.queue, owner, 'MAXLEN', 1000) or redis.call('LLEN', f.queue)
end

-- fair_wait keeps the place of an owner, or gives it one, and returns how many are before it. With place 0 it only
-- returns that.
local function fair_wait(f, owner, now, place)
  if place == 0 then return fair_ahead(f, owner) end
  if not redis.call('ZSCORE', f.timeouts, owner) then return fair_join(f, {owner}, now, place) end
  fair_stay(f, {owner}, now, place)
  return fair_ahead(f, owner)
end

-- fair_check returns nil and whether the owner holds the name, if it holds it or may take it; else the answer that
-- refuses it, {0, ms until another attempt or -1, who is in the way, how many wait before}. a is as for plain.lua, and
-- has place: for how many ms a refused owner keeps a place in the queue.
local function fair_check(f, a)
  local mine, fields = plain_hold(f.name, a.owner)
  if mine then return nil, mine end
  local now = now_ms()
  local head, first = fair_purge(f, now, a.place > 0)
  if a.place > 0 and head and head ~= a.owner and not redis.call('ZSCORE', f.timeouts, a.owner) then
    local ends = redis.call('ZSCORE', f.places, a.owner)
    if ends and tonumber(ends) > now then
      fair_return(f, {a.owner}, now, a.place)
      head = a.owner
    end
  end
  if fields == 0 and (not head or head == a.owner) then return nil end

  local ahead = fair_wait(f, a.owner, now, a.place)
  if head and head ~= a.owner then fair_news(f, first) end
  if fields > 0 then
    local refusal = plain_check(f, a)
    refusal[4] = ahead
    return refusal
  end
  local ends = fair_ours(f, head)
  return {0, ends and math.max(1, tonumber(ends) - now) or 1000, head, ahead}
end

-- fair_take gives the owner what fair_check allowed, ends its place, and tells the next waiter.
local function fair_take(f, a, mine)
  local reply = plain_take(f, a, mine)
  if reply.err then return reply end
  if fair_forget(f, a.owner) or not mine then fair_turn(f, reply[3]) end
  return reply
end
