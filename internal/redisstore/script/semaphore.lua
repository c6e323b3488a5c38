-- semaphore.lua: permits. It is put in front of scripts, after clock.lua and fence.lua, and is no script by itself.
--
-- s has the keys: name and token, and out, Redisson's sorted set: permit id -> ms since 1970 when it ends. The string
-- <name> is Redisson's: how many permits are there to be had. The limit is that number and the permits that are out: if
-- more are out than a new, smaller limit, <name> is negative. Both keys live for LIMIT_LIVES longer than the last
-- permit, unless somebody made <name> without a TTL.
-- s.channel is where those who wait are told how many are available, if any.
-- a is a claim: owner; ttl and fence_ttl in ms; permits, the number wanted; limit, or 0 for the one that is kept.

-- permit_stem returns what the ids of an owner's permits begin with, in hexadecimal digits. It names the owner's hold.
local function permit_stem(owner) return string.sub(redis.sha1hex(owner), 1, 24) end

-- permit_ids returns the ids of an owner's permits from the i-th to the n-th: 16 bytes that nobody else has, 12 of the owner
-- and 4 of the number.
local stems = {}
local function permit_ids(owner, i, n)
  local stem = stems[owner]
  if not stem then
    stem = string.gsub(permit_stem(owner), '..', function(byte) return string.char(tonumber(byte, 16)) end)
    stems[owner] = stem
  end
  local ids, floor = {}, math.floor
  for k = i, n do
    ids[k - i + 1] = stem .. string.char(floor(k / 16777216) % 256, floor(k / 65536) % 256, floor(k / 256) % 256, k % 256)
  end
  return ids
end

-- sem_number returns how many permits are available, nil if there is no semaphore, or nil and an error reply if there
-- is something else. It sets s.any to whether some are out.
local function sem_number(s)
  local bad
  bad, s.any = permits_misfit(s.out)
  if bad then return nil, bad end
  local text = redis.pcall('GET', s.name)
  if not text then return nil end
  if type(text) == 'table' or not is_permits(text) then return nil, other_kind('the name holds no permits') end
  return tonumber(text)
end

-- sem_available is sem_number, but an error reply if the number is that of another program.
local function sem_available(s)
  local available, bad = sem_number(s)
  if not available or s.any or (last_fence(s.token) or 0) > 0 then return available, bad end
  return nil, other_kind('nothing says that the number at the name is that of a semaphore')
end

-- sem_misfit returns an error reply if something else is at the keys, and sets s.available to what sem_available
-- returns.
local function sem_misfit(s)
  local bad, _
  s.available, bad = sem_available(s)
  if bad then return bad end
  _, bad = last_fence(s.token)
  return bad
end

-- sem_tell tells those who wait how many permits are available, and returns how many heard it. It also tells the
-- watchers that a hold ended: what, fence and who are as for news; what is nil if none ended.
local function sem_tell(s, available, what, fence, who)
  if available > 0 then
    return tell(s.name, s.channel, string.format('%.0f', available), what or 'nothing', fence or '0', who)
  end
  if what then news(s.name, what, fence, 0, who) end
  return 0
end

-- One script takes back at most this many permits that have ended. The next script goes on.
local purge_left = 1000

-- sem_purge takes back permits that have ended, and returns how many are available then; nil if none ended.
local function sem_purge(s, now)
  if purge_left <= 0 then return nil end
  local ids = redis.call('ZRANGEBYSCORE', s.out, '-inf', now, 'LIMIT', 0, purge_left)
  if #ids == 0 then return nil end
  purge_left = purge_left - #ids
  redis.call('ZREM', s.out, unpack(ids)) -- allowed when memory is full, and opens the way for INCRBY
  return redis.call('INCRBY', s.name, #ids)
end

-- sem_own returns which of an owner's permits are out, which are missing, and when the first of them ends. It looks up
-- to the n-th permit, or for n = 0 up to the first missing one, and skips the first over ones.
local function sem_own(s, owner, n, now, over)
  local there, missing, first = {}, {}, nil
  local last = n == 0 and 2147483647 or n
  for from = (over or 0) + 1, last, 250 do
    local ids = permit_ids(owner, from, math.min(from + 249, last))
    for i, ends in ipairs(redis.call('ZMSCORE', s.out, unpack(ids))) do
      if ends and tonumber(ends) > now then
        there[#there + 1] = ids[i]
        first = math.min(first or math.huge, tonumber(ends))
      elseif n == 0 then
        return there, missing, first
      else
        missing[#missing + 1] = ids[i]
      end
    end
  end
  return there, missing, first
end

-- sem_lease has permits end at ends, or later if they do so already, and returns how many are new. With 'XX' for how,
-- it has those that are out end exactly at ends.
local function sem_lease(s, ids, ends, how)
  local added = 0
  for from = 1, #ids, 500 do
    local list = {}
    for i = from, math.min(from + 499, #ids) do
      list[#list + 1] = ends
      list[#list + 1] = ids[i]
    end
    added = added + redis.call('ZADD', s.out, how or 'GT', unpack(list))
  end
  return added
end

-- sem_drop takes permits out and returns how many were there.
local function sem_drop(s, ids)
  local dropped = 0
  for from = 1, #ids, 500 do
    dropped = dropped + redis.call('ZREM', s.out, unpack(ids, from, math.min(from + 499, #ids)))
  end
  return dropped
end

-- sem_live has the keys of a semaphore live on, unless they have no TTL.
local function sem_live(s, now)
  local left = redis.call('PTTL', s.name)
  if left < 0 then return end
  left = math.max(left, permits_last(s.out, now) + LIMIT_LIVES)
  redis.call('PEXPIRE', s.name, left)
  redis.call('PEXPIRE', s.out, left)
end

-- sem_check returns nil and the state for sem_take if the owner may have the permits or has them; else the answer that
-- refuses them.
local function sem_check(s, a)
  local available = s.available
  if not available and a.limit == 0 then return {-4, 0} end
  local now = now_ms()
  local state = {now = now, new = not available}
  if state.new then
    if a.permits > a.limit then return {-5, a.limit} end
    state.there, state.missing = {}, permit_ids(a.owner, 1, a.permits)
    return nil, state
  end
  local purged = sem_purge(s, now)
  if purged then
    available = purged
    sem_tell(s, available)
  end
  state.there, state.missing, state.first = sem_own(s, a.owner, a.permits, now)
  if #state.missing == 0 then return nil, state end -- a repetition, whatever the limit is by now
  local kept = available + redis.call('ZCARD', s.out)
  if a.limit ~= 0 and a.limit ~= kept then return {-4, kept} end
  if a.permits > kept then return {-5, kept} end
  if #state.missing <= available then return nil, state end
  local next = redis.call('ZRANGE', s.out, 0, 0, 'WITHSCORES')[2]
  -- Permits without a lease end in 29,000 years.
  if not next or tonumber(next) >= 922337203685477 then return {0, -1, ''} end
  return {0, math.max(1, tonumber(next) - now), ''}
end

-- sem_take gives the owner what sem_check allowed.
local function sem_take(s, a, state)
  -- A repetition needs no memory: its first write changes nothing, is allowed, and opens the way.
  if #state.missing == 0 then redis.call('ZREM', s.out, '') end
  local fence, bad = grant_fence(s.token, a.fence_ttl)
  if bad then return bad end
  if state.new then
    redis.call('UNLINK', s.out) -- permits of one that is forgotten
    redis.call('SET', s.name, a.limit, 'PX', a.ttl + LIMIT_LIVES)
  end
  local ends = state.now + a.ttl
  local added = sem_lease(s, state.missing, ends)
  if added > 0 then redis.call('DECRBY', s.name, added) end
  sem_lease(s, state.there, ends)
  sem_live(s, state.now)
  return {1, fence, math.max(a.ttl, #state.missing == 0 and state.first - state.now or 0)}
end
