-- read.lua: acquisition and release of a read hold in all cases. It is put in front of scripts, after rw.lua and
-- news.lua, and is no script by itself.

-- read_acquire makes a claim, as in rw.lua, and returns what acquire_all.lua does. full is the error of a full Redis,
-- if it is known to be full.
local function read_acquire(r, a, full)
  local bad = rw_misfit(r)
  if bad then return bad end
  local refusal, state = read_check(r, a)
  if refusal then return refusal end
  if full and not (state.fence and tonumber(state.fence) > 1) then return full end
  return read_take(r, a, state)
end

-- read_left_behind adjusts a lock that is read after a reader left, and returns whether it ended the lock: that ends
-- with its last reader, and lives as long as its longest hold. longest says whether the longest hold left. Of many
-- readers it looks at a few first: one that is alive is enough, or, if longest, one that lives as long as the lock. Of
-- very many it never looks at all.
local function read_left_behind(r, longest)
  local fields = redis.call('HLEN', r.name)
  local left = fields > 8 and rw_some(r) or -2
  if left >= 0 and (not longest or fields > 130 or left + apart >= redis.call('PTTL', r.name)) then return false end
  local readers = rw_readers(r, true)
  if readers.alive > 0 or not readers.whole then
    rw_fit(r, readers)
    return false
  end
  redis.call('DEL', r.name)
  return true
end

-- read_release ends a hold, and returns what release_read.lua does. b has: owner and fence as texts, and the channel. It begins with a
-- write that is allowed when memory is full.
local function read_release(r, b)
  local bad = lock_misfit(r.name)
  if bad then return bad end
  local got = redis.call('HMGET', r.name, 'mode', b.owner)
  local mode, had = got[1], got[2]
  local fence, away
  if mode and had then fence, away = read_fence(r, b.owner, had) end
  if away then return away end
  if not fence then return {-1} end -- or its time has passed
  if b.fence ~= '0' and fence ~= b.fence then return {-2} end

  -- The lock lives as long as its longest hold.
  local longest = redis.call('PTTL', r.name) <= read_left(r, b.owner, had) + apart
  read_drop(r, b.owner, had)
  redis.call('HDEL', r.name, b.owner)
  if mode == 'read' and read_left_behind(r, longest) then return {1, tell(r.name, b.channel, '0', 'released', fence)} end
  news(r.name, 'released', fence, 0)
  return {1, 0}
end
