-- many_permits.lua: the ordinary acquisition and release of one permit among many requests, in as few commands as
-- possible. It is put into many_shared.lua and is no script by itself.
--
-- The page of a name notes the writes that are put off, see many_shared.lua. That of a semaphore has:
--   out        its sorted set
--   available  how many permits there are to be had        limit  how many there are
--   change     how many came back, less those taken        taken  whether any was taken
--   deaf       whether nobody hears when permits come back

local take_whole, give_back_whole
-- build makes the functions for all cases, when they are needed.
local function build()
  -- library: clock fence semaphore permits
  take_whole, give_back_whole = sem_acquire, sem_release
end

local ms = math.floor(now / 1000)

local function settle(name, page)
  keep(page)
  if page.change ~= 0 then redis.call('INCRBY', name, page.change) end
  local left = page.taken and redis.call('PTTL', name) or -1
  if left < 0 then return end
  left = math.max(left, permits_last(page.out, ms) + LIMIT_LIVES)
  redis.call('PEXPIRE', name, left)
  redis.call('PEXPIRE', page.out, left)
end

-- permits returns the page of a semaphore, nil if there is no semaphore, or if it has permits that have ended and were
-- not taken back. token is nil for a release, whose owner must have a permit.
local function permits(name, out, token)
  local page = pages[name]
  if page then return page.settle == settle and page end -- it may be one of another kind
  local available = redis.pcall('GET', name)
  if type(available) ~= 'string' or not is_permits(available) then return nil end
  local bad, ends = permits_misfit(out)
  if bad or ends and ends <= ms then return nil end
  if not ends and not (token and redis.call('EXISTS', token) == 1) then return nil end
  available = tonumber(available)
  local limit = available + redis.call('ZCARD', out)
  return {settle = settle, asked = {}, out = out, available = available, limit = limit, change = 0}
end

-- lend gives a permit out and returns the page, nil if the case is not ordinary.
local function lend(name, token, out, id, ends, limit)
  local page = not full and permits(name, out, token)
  if not page or page.available < 1 or limit ~= '0' and tonumber(limit) ~= page.limit then return nil end
  if page.fence then
    if redis.call('ZADD', out, 'NX', ends, id) == 0 then return nil end
    page.fence = page.fence + 1
    return page
  end
  if redis.call('ZSCORE', out, id) or not first(page, token) then return nil end
  redis.call('ZADD', out, ends, id)
  return page
end

local function permit_claim(k, a)
  local name, token, out, owner, ttl, limit = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], tonumber(ARGV[a + 3]), ARGV[a + 4]
  local page = lend(name, token, out, ARGV[a + 2], ms + ttl, limit)
  if not page then
    settle_page(name)
    if not take_whole then build() end
    return take_whole({name = name, token = token, out = out, channel = KEYS[k + 4]}, {
      owner = owner, permits = 1, ttl = ttl, limit = tonumber(limit), fence_ttl = fence_ttl,
    }, full)
  end
  pages[name], page.taken = page, true
  page.available, page.change = page.available - 1, page.change - 1
  return page.fence
end

local function permit_give(k, a)
  local name, out, channel, owner, id, fence = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], ARGV[a + 2], ARGV[a + 3]
  local page = permits(name, out)
  if not page or redis.pcall('ZREM', out, id) ~= 1 then
    settle_page(name)
    if not give_back_whole then build() end
    return give_back_whole({name = name, out = out, channel = channel}, {owner = owner, permits = 1, fence = fence, keeps = 0})
  end
  pages[name] = page
  page.available, page.change = page.available + 1, page.change + 1
  if page.deaf then return 0 end
  local stem = string.gsub(string.sub(id, 1, 12), '.', function(c) return string.format('%02x', string.byte(c)) end)
  local heard = 0
  if page.available > 0 then
    heard = tell(name, channel, string.format('%.0f', page.available), 'released', fence, 'permit ' .. stem)
    page.deaf = heard == 0
  else
    news(name, 'released', fence, 0, 'permit ' .. stem)
  end
  return heard
end
