-- many_read.lua: the ordinary acquisition and release of a read hold among many requests, in as few commands as
-- possible. It is put into many_shared.lua and is no script by itself.
--
-- The page of a name notes the writes that are put off, see many_shared.lua. That of a name that is read has:
--   open     whether no writer waits, nil if not known
--   left     how many ms the hash lives, -2 while there is none
--   lasts    the longest TTL that was granted, nil if none was or if that hold may be over; fresh says to whom any was
--   longest  whether a hold is to end that lives as long as the hash
--   ends, owners, holds, fences  the releases: their numbers, owners, keys of the hold, and fences

-- As in rw.lua.
local apart = 5

local read_whole, give_whole, left_behind
-- build makes the functions for all cases, when they are needed.
local function build()
  -- library: fence rw read
  read_whole, give_whole, left_behind = read_acquire, read_release, read_left_behind
end

-- base_of is what keys of single holds begin with, see rw.lua.
local function base_of(hold, owner) return string.sub(hold, 1, -18 - #owner) end

local function settle(name, page)
  keep(page)
  local n = #page.ends
  if n == 0 then return end
  redis.call('DEL', unpack(page.holds))
  redis.call('HDEL', name, unpack(page.owners))
  if not left_behind then build() end
  local r = {name = name, base = base_of(page.holds[n], page.owners[n])}
  local free = left_behind(r, page.longest and page.left > (page.lasts or -1))
  local heard = 1 -- who hears of the first hears of all
  for i = 1, free and n - 1 or n do
    if heard > 0 then heard = news(name, 'released', page.fences[i], 0) end
  end
  if free then answers[page.ends[n]] = tell(name, page.channel, '0', 'released', page.fences[n]) end
end

-- reading returns the page of a name that is free or read, nil if it is anything else.
local function reading(name)
  local page = pages[name]
  if page then return page.settle == settle and page end -- it may be one of another kind
  local mode = redis.pcall('HGET', name, 'mode')
  if mode ~= 'read' and (mode or redis.call('EXISTS', name) == 1) or mode and lock_misfit(name) then return nil end
  local left = redis.call('PTTL', name)
  return {settle = settle, asked = {}, left = left, fresh = {}, ends = {}, owners = {}, holds = {}, fences = {}}
end

-- begin lets a new reader in and returns the page, nil if the case is not ordinary.
local function begin(name, token, writer, hold, owner)
  local page = not full and reading(name)
  if not page or redis.call('EXISTS', hold) == 1 then return nil end
  if page.open == nil then page.open = redis.call('EXISTS', writer) == 0 end
  if not page.open then return nil end
  if page.fence then
    if redis.call('HSETNX', name, owner, 1) == 0 then return nil end
    page.fence = page.fence + 1
    return page
  end
  if redis.call('HEXISTS', name, owner) == 1 or not first(page, token) then return nil end
  redis.call('HSET', name, 'mode', 'read', owner, 1)
  return page
end

local function read_claim(name, token, writer, hold, owner, ttl)
  local page = begin(name, token, writer, hold, owner)
  if not page then
    settle_page(name)
    if not read_whole then build() end
    return read_whole({name = name, token = token, writer = writer, base = base_of(hold, owner)}, {
      owner = owner, ttl = tonumber(ttl), fence = '0', fence_ttl = fence_ttl, write_owner = '',
    }, full)
  end
  pages[name] = page
  redis.call('SET', hold, string.format('%.0f', page.fence), 'PX', ttl)
  ttl = tonumber(ttl)
  if ttl > page.left then
    redis.call('PEXPIRE', name, ttl)
    page.left = ttl
  end
  page.lasts, page.fresh[owner] = math.max(ttl, page.lasts or 0), true
  return page.fence
end

-- read_give is the release of the i-th request. An owner whose release is already on the page is not ordinary, because
-- a hold is ended only once.
local function read_give(i, name, channel, hold, owner, fence)
  local page = reading(name)
  local held = page and redis.call('HGET', name, owner) == '1' and not page.ends[owner] and redis.pcall('GET', hold)
  if not held or held ~= fence and (fence ~= '0' or type(held) ~= 'string' or string.find(held, '%D')) then
    settle_page(name)
    if not give_whole then build() end
    return give_whole({name = name, base = base_of(hold, owner)}, {owner = owner, fence = fence, channel = channel})
  end
  local left = redis.call('PTTL', hold)
  pages[name], page.channel = page, channel
  if left < 0 or left + apart >= page.left then page.longest = true end
  if page.fresh[owner] then page.lasts = nil end -- it may be that one
  local n = #page.ends + 1
  page.ends[n], page.owners[n], page.holds[n], page.fences[n] = i, owner, hold, held
  page.ends[owner] = true
  return 0
end
