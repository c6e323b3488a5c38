-- rw.lua: holds of a read-write lock. It is put in front of scripts, after fence.lua, and is no script by itself.
--
-- r has the keys: name and token, and
--   writer    our string: the owner that waits to write. While it is there, lockd lets in no new readers
-- and base, what the keys of single holds begin with: {<name>}: or <name>: if that has braces.
--   <base><owner>:rwlock_timeout:<i>   i = 1..hold count (Redisson's): lives as long as the i-th hold of a reader. Redisson
--                                      writes 1 into it and never reads it; ours holds the fence. A reader reads as long
--                                      as one of these lives. A reader of lockd has one hold, so i = 1
--   <base><owner>:write:lockd_fence    our string: the fence of a writer
-- The hash <name> is Redisson's: mode -> read or write, <owner> -> read count, <owner>:write -> write count.
-- a is a claim: owner, and fence as text, the least that it is to have; ttl and fence_ttl in ms.

local function read_key(r, owner, i) return r.base .. owner .. ':rwlock_timeout:' .. i end
local function write_key(r, owner) return r.base .. owner .. ':write:lockd_fence' end

-- all_here says whether those of some keys of holds that are not here are at no other node either. While a slot moves,
-- both nodes refuse a command with two keys if they lack one of them. So it asks with the name beside the keys.
local function all_here(r, keys)
  keys[#keys + 1] = r.name
  return type(redis.pcall('EXISTS', unpack(keys))) == 'number'
end

-- write_fence returns the fence of a writer, as text, or nil if it is not there.
local function write_fence(r, owner)
  local text = redis.call('MGET', write_key(r, owner))[1] -- nothing if there is something else
  return text and string.match(text, '^%d+$')
end

-- writer_of returns the owner of a write field, or nil.
local function writer_of(field)
  if string.sub(field, -6) == ':write' then return string.sub(field, 1, -7) end
end

-- Times in ms that differ by at most this mean the same: a script sets or reads them one after the other.
local apart = 5

-- One script looks at this many holds at most.
local looks_left = 2000

-- rw_misfit returns an error reply if something else is at the keys. It does not look at keys of single holds.
local function rw_misfit(r)
  local _, bad = last_fence(r.token)
  return bad or lock_misfit(r.name) or owner_misfit(redis.pcall('GET', r.writer), 'waiting writer')
end

-- read_keys are the keys of a reader's holds from the i-th to the n-th.
local function read_keys(r, owner, i, n)
  local keys = {}
  for k = i, n do keys[k - i + 1] = read_key(r, owner, k) end
  return keys
end

-- read_fence returns the fence of a reader with count holds, as text, or nil if all of them have ended, or nil and an
-- error reply if they may be on their way.
local function read_fence(r, owner, count)
  local from, last = 1, math.min(tonumber(count) or 1, 1000)
  while from <= last do
    local n = from == 1 and 1 or 100 -- mostly the first one lives
    local got = redis.pcall('MGET', unpack(read_keys(r, owner, from, math.min(from + n - 1, last))))
    if got.err then return nil, on_its_way() end
    for _, fence in ipairs(got) do
      if fence and string.match(fence, '^%d+$') then return fence end
    end
    from = from + n
  end
  if not all_here(r, {read_key(r, owner, 1)}) then return nil, on_its_way() end
end

-- read_look returns how many ms the longest of count holds of a reader lives, -2 if none does; whether it looked at all
-- of them; and whether some are on their way, so that it could not. It adds the keys that are not here to missing.
local function read_look(r, owner, count, missing)
  local longest, all = -2, tonumber(count) or 1
  local n = math.min(all, looks_left)
  looks_left = looks_left - n
  local away = false
  for i = 1, n do
    local key = read_key(r, owner, i)
    local left = redis.pcall('PTTL', key)
    if left == -1 then left = redis.call('PTTL', r.name) end -- as long as the lock itself
    if type(left) ~= 'number' then
      away = true
    elseif left == -2 then
      missing[#missing + 1] = key
    else
      longest = math.max(longest, left)
    end
  end
  return longest, n == all, away
end

-- read_left is read_look for one reader. It also finds out whether missing keys are on their way.
local function read_left(r, owner, count)
  local missing = {}
  local longest, looked, away = read_look(r, owner, count, missing)
  away = away or #missing > 0 and not all_here(r, missing)
  return longest, looked and not away, away
end

-- rw_ours returns those of some keys that are of single holds, and the fences in them as texts.
local function rw_ours(keys)
  local ours, fences = {}, {}
  for i, text in ipairs(redis.pcall('MGET', unpack(keys))) do -- nothing if there is something else, or if they are on their way
    if text and is_number(text) then ours[#ours + 1], fences[#fences + 1] = keys[i], text end
  end
  return ours, fences
end

-- rw_drop deletes those of some keys that are of single holds, and returns the fences in them as texts.
local function rw_drop(keys)
  if #keys == 0 then return {} end
  local drop, fences = rw_ours(keys)
  if #drop > 0 then redis.call('DEL', unpack(drop)) end
  return fences
end

-- read_drop ends the holds of a reader. A reader of lockd has one, unless an older lockd wrote it.
local function read_drop(r, owner, count)
  local n = math.min(tonumber(count) or 1, 1000)
  for from = 1, n, 100 do rw_drop(read_keys(r, owner, from, math.min(from + 99, n))) end
end

-- rw_readers looks at the holds of readers. It returns alive, how many owners live; one, the first of them by name, and
-- its count; left, how many ms the longest hold lives, and ours, the same for lockd's. With sweep it takes out the
-- dead. Of very many readers or holds it looks at some only: whole says whether it looked at all, and away whether some
-- are on their way, so that it could not.
local function rw_readers(r, sweep)
  local found = {alive = 0, left = -2, ours = -2, whole = redis.call('HLEN', r.name) <= 130}
  local list
  if found.whole then
    list = redis.call('HGETALL', r.name)
  else
    list = redis.call('HRANDFIELD', r.name, 64, 'WITHVALUES')
  end
  local missing, dead = {}, {}
  for i = 1, #list, 2 do
    local owner, count = list[i], list[i + 1]
    if owner ~= 'mode' and not writer_of(owner) then
      local left, looked, away = read_look(r, owner, count, missing)
      found.whole, found.away = found.whole and looked, found.away or away
      if left >= 0 then
        found.alive = found.alive + 1
        if not found.one or owner < found.one then found.one, found.count = owner, count end
        found.left = math.max(found.left, left)
        if of_lockd(owner) then found.ours = math.max(found.ours, left) end
      elseif looked then
        dead[#dead + 1] = owner
      end
    end
  end
  found.away = found.away or #missing > 0 and not all_here(r, missing) -- once: each call costs
  found.whole = found.whole and not found.away
  if sweep and not found.away and #dead > 0 then redis.call('HDEL', r.name, unpack(dead)) end
  return found
end

-- rw_some returns how many ms the longest of a few random readers lives, -2 if none does. It takes out the dead ones,
-- or they would become ever more while nobody looks at all readers.
local function rw_some(r)
  local longest = -2
  local list = redis.call('HRANDFIELD', r.name, 4, 'WITHVALUES')
  for i = 1, #list, 2 do
    local owner, count = list[i], list[i + 1]
    if owner ~= 'mode' and not writer_of(owner) then
      local left, looked = read_left(r, owner, count)
      if left < 0 and looked then redis.call('HDEL', r.name, owner) end
      longest = math.max(longest, left)
    end
  end
  return longest
end

-- rw_holder returns who holds a name that is not read: the writer, or the owner of another kind of lock.
local function rw_holder(r)
  if redis.call('HLEN', r.name) > 130 then return '' end
  local one = ''
  for _, field in ipairs(redis.call('HKEYS', r.name)) do
    local writer = writer_of(field)
    if writer then return writer end
    if field ~= 'mode' then one = field end
  end
  return one
end

-- rw_restore has a lock last as long as the holds of lockd's readers that were looked at, because Redisson sets its TTL
-- without regard to other readers. It does not do so for Redisson's holds, which may have been meant to end with the
-- lock.
local function rw_restore(r, readers)
  local left = redis.call('PTTL', r.name)
  if left >= 0 and readers.ours > left + apart then redis.call('PEXPIRE', r.name, readers.ours) end
end

-- rw_fit sets the TTL of a lock that nobody writes: it must not outlive its holds, and lasts as long as those of lockd.
local function rw_fit(r, readers)
  if readers.whole and readers.left < redis.call('PTTL', r.name) then
    redis.call('PEXPIRE', r.name, readers.left)
  else
    rw_restore(r, readers)
  end
end

-- rw_written tells all who wait that a writer left, and returns how many heard it. The message wakes those clients of
-- Redisson that wait at that moment, but not one that has asked for the last time and is about to wait. The second
-- message, a 0 written differently, which lockd ignores, wakes that one.
local function rw_written(name, channel, what, fence)
  local heard = tell(name, channel, '1', what, fence)
  redis.call('PUBLISH', channel, '00')
  return heard
end

-- rw_fence is the fence in the key of a reader's hold. Redisson's 1 is none.
local function rw_fence(text) return text == '1' and '0' or text end

-- rw_note stores the fence of a single hold for ttl ms, unless something else is at the key.
local function rw_note(key, fence, ttl)
  local text = string.format('%.0f', fence)
  if redis.call('SET', key, text, 'PX', ttl, 'NX') or number_misfit(key, 'hold') then return end
  redis.call('SET', key, text, 'PX', ttl)
end

-- read_check returns nil and the state for read_take if the owner may read or does already; else the answer that
-- refuses it. a.write_owner is the owner of a write hold that does not stand in the way, or ''.
local function read_check(r, a)
  local got = redis.call('HMGET', r.name, 'mode', a.owner, a.write_owner .. ':write')
  local mode = got[1]
  local fence, bad
  if mode and got[2] then fence, bad = read_fence(r, a.owner, got[2]) end
  local state = {mode = mode, fence = fence} -- without it, it has died
  local key = read_key(r, a.owner, 1)
  bad = bad or number_misfit(key, 'hold') or not all_here(r, {key}) and on_its_way() or nil
  if bad or state.fence then return bad, state end
  if mode == 'write' and a.write_owner ~= '' and got[3] then return nil, state end
  local left = redis.call('PTTL', r.name)
  if mode ~= 'read' and left ~= -2 then return {0, left, rw_holder(r)} end
  local writer = redis.call('GET', r.writer)
  if not writer then return nil, state end
  local wait = redis.call('PTTL', r.writer)
  if left >= 0 then wait = math.min(left, wait) end
  return {0, wait, writer}
end

-- read_take gives the owner what read_check allowed. A repetition never shortens the hold.
local function read_take(r, a, state)
  -- Redisson's 1 is no fence.
  local fence, key, ttl = tonumber(state.fence or 0), read_key(r, a.owner, 1), a.ttl
  if fence > 0 then ttl = math.max(ttl, redis.call('PTTL', key)) end
  if fence > 1 then
    -- This needs no memory; its first write is allowed when memory is full.
    extend(r.name, ttl)
    if redis.call('EXISTS', r.token) == 1 then live_on(r.token, a.fence_ttl) else keep_fence(r.token, fence, a.fence_ttl) end
  else
    local bad
    fence, bad = grant_fence(r.token, a.fence_ttl, a.fence)
    if bad then return bad end
    redis.call('HSET', r.name, 'mode', state.mode or 'read', a.owner, 1)
    extend(r.name, ttl)
  end
  rw_note(key, fence, ttl)
  return {1, fence, ttl}
end

-- write_check returns nil and the state for write_take if the owner may write or does already; else the answer that
-- refuses it. a.place is for how many ms a refused owner keeps new readers away, 0 for none.
local function write_check(r, a)
  local got = redis.call('HMGET', r.name, 'mode', a.owner .. ':write')
  local mode, had, key = got[1], got[2], write_key(r, a.owner)
  if mode == 'write' and had then
    if not all_here(r, {key}) then return on_its_way() end
    return nil, {had = true, fence = write_fence(r, a.owner)}
  end
  local left, holder, readers = redis.call('PTTL', r.name), nil, nil
  local free = left == -2
  if mode == 'read' then
    readers = rw_readers(r, false)
    -- A dead reader holds a writer back no longer than its own lease, whoever keeps the hash.
    free = readers.whole and readers.alive == 0
    if readers.whole then left = readers.left end
    holder = readers.one or ''
  else
    holder = rw_holder(r)
  end
  local bad = free and not all_here(r, {key}) and on_its_way() or number_misfit(key, 'hold')
  if free then return bad, {dead = mode == 'read'} end
  if bad and not string.find(bad.err, 'TRYAGAIN', 1, true) then return bad end
  if a.place > 0 then
    local writer = redis.call('GET', r.writer)
    if not writer then
      redis.call('SET', r.writer, a.owner, 'PX', a.place)
    else
      extend(r.writer, a.place)
    end
  end
  if readers then rw_restore(r, readers) end
  return {0, left, holder}
end

-- write_take gives the owner what write_check allowed.
local function write_take(r, a, state)
  local ttl, fence = a.ttl, nil
  if state.had then
    fence = tonumber(state.fence) or next_fence(0, a.fence)
    ttl = extend(r.name, ttl)
    local last, bad = last_fence(r.token)
    if bad then return bad end
    keep_fence(r.token, math.max(last, fence), a.fence_ttl)
    if redis.call('GET', r.writer) == a.owner then redis.call('DEL', r.writer) end
  else
    local bad
    fence, bad = grant_fence(r.token, a.fence_ttl, a.fence)
    if bad then return bad end
    if state.dead then redis.call('DEL', r.name) end
    redis.call('HSET', r.name, 'mode', 'write', a.owner .. ':write', 1)
    redis.call('PEXPIRE', r.name, ttl)
    redis.call('DEL', r.writer)
  end
  rw_note(write_key(r, a.owner), fence, ttl)
  return {1, fence, ttl}
end
