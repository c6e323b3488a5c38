-- many_shared.lua: requests of many.lua for locks that many hold at once. It is put into many.lua and is no script by
-- itself.

-- library: shape

-- pages has, by name, what is known of locks that many hold, and the writes that are put off until the script ends or a
-- request that is not ordinary comes for the name. A page of any kind has settle, which does those writes; asked, the
-- numbers of its requests, which are answered with the error if a write fails; and, if anything was granted, fence,
-- the last one, kept, what the fence key has, and token, that key.
local pages = {}

-- settle_page does the writes that were put off for a name, or for all names.
local function settle_page(name)
  if not name then
    for each in pairs(pages) do settle_page(each) end
    return
  end
  local page = pages[name]
  if not page then return end
  pages[name] = nil
  local ok, bad = pcall(page.settle, name, page)
  if ok then return end
  for _, i in ipairs(page.asked) do answers[i] = type(bad) == 'table' and bad.err or bad end
end

-- first makes the first fence of a page, nil if it cannot; keep stores the last one.
local function first(page, token)
  page.token, page.fence = token, (advance_fence(token, fence_ttl, now, text))
  page.kept = page.fence
  return page.fence
end

local function keep(page)
  if page.fence ~= page.kept then redis.call('SET', page.token, string.format('%.0f', page.fence), 'KEEPTTL') end
end

-- These are built when the first one needs them.
local claim_read, give_read
local function readers()
  -- library: many_read
  claim_read, give_read = read_claim, read_give
end

local claim_permit, give_permit
local function semaphores()
  -- library: many_permits
  claim_permit, give_permit = permit_claim, permit_give
end

-- share makes a request of a kind that many hold at once. op is its letter; i, k and a are as in many.lua.
local function share(op, i, k, a)
  local answer
  if op == 98 then
    if not claim_read then readers() end
    answer = claim_read(KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], KEYS[k + 4], ARGV[a + 1], ARGV[a + 2])
  elseif op == 101 then
    if not give_read then readers() end
    answer = give_read(i, KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], ARGV[a + 2])
  else
    if not claim_permit then semaphores() end
    answer = (op == 112 and claim_permit or give_permit)(k, a)
  end
  local page = pages[KEYS[k + 1]]
  if page then page.asked[#page.asked + 1] = i end
  return answer
end
