-- many.lua: acquisitions and releases of locks, one after the other, each as if it were alone.
-- KEYS    for each, as in the scripts for one, but without those that are not named here:
--         a A  <name>, redisson_lock_token:{<name>}
--         r h  <name>, redisson_lock_token:{<name>}, redisson_lock__channel:{<name>}
--         b    <name>, redisson_lock_token:{<name>}, lockd_lock_writer:{<name>}, {<name>}:<owner>:rwlock_timeout:1
--         e    <name>, redisson_rwlock:{<name>}, {<name>}:<owner>:rwlock_timeout:1
--         p    <name>, redisson_lock_token:{<name>}, {<name>}:timeout, redisson_sc:{<name>}
--         v    <name>, {<name>}:timeout, redisson_sc:{<name>}
-- ARGV[1] what each is, a letter for each: of an exclusive lock, a acquisition, A the same with a least fence,
--         r release, h the same with a next owner; of a read hold, b acquisition, e release; of one permit, p acquisition, v release
-- ARGV[2] TTL of the fence keys in ms; then for each:
--         a    owner, TTL in ms
--         A    owner, TTL in ms, the least fence
--         r    owner, its fence, 0 for any
--         h    owner, its fence, 0 for any, next owner, its TTL in ms, its least fence, 0 for the clock
--         b    owner, TTL in ms
--         e    owner, its fence
--         p    owner, id of its first permit, TTL in ms, limit, 0 for the one that is kept
--         v    owner, id of its first permit, its fence, which is only told
-- Returns a list with one element for each: the fence of what was free, or how many heard of a release, in the ordinary case; else
--         what the script for one answers: a list, or the text of an error. (An error in a list ends what go-redis reads.)
-- Safe to run twice: each is. No error ends the script: each is caught, and is the answer of its request alone. Redis
-- refuses no write after the first one, so whether memory is full is found out with the first write at the latest. Thus
-- each acquisition has the answer that it would have by itself, whatever stands before it.
local ops, fence_ttl = ARGV[1], ARGV[2]
local try, letter, find = redis.pcall, string.byte, string.find
local answers = {}

-- The clock in microseconds, as number and as text. Acquisitions with a least fence, and releases of exclusive locks,
-- do not need it.
local now, text
if find(ops, '[abepv]') then
  now = redis.call('TIME')
  now = now[1] * 1000000 + now[2]
  text = string.format('%.0f', now)
end

-- full is the error of a full Redis, false if it is not full, nil while nobody asked.
local full

-- ask_memory sets full, by a command that a full Redis refuses and that writes nothing.
local function ask_memory()
  local refused = try('SETRANGE', KEYS[2], '0', '')
  full = type(refused) == 'table' and find(refused.err, 'OOM ', 1, true) and refused or false
end

-- tidings tells the watchers of a release, and returns the error of that, if any. Redis 6.2 throws texts.
local function tidings(name, fence)
  -- library: news
  local ok, bad = pcall(news, name, 'released', fence, 1)
  return not ok and (type(bad) == 'table' and bad.err or bad)
end

-- The ordinary cases of exclusive locks come before the libraries, because to build those costs more than these cases.
-- This loop ends at the first request that is not ordinary. That request begins anew below, so what the loop has
-- written for it must not matter.
local half = fence_ttl * 500 -- as in advance.lua
local i, k, a = 1, 0, 2
local op = letter(ops)
if op ~= 65 and op ~= 97 and find(ops, '[Aabhp]') then ask_memory() end
while op do
  local name, token, owner = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1]
  if op == 65 or op == 97 then
    local least, fence = text, now
    if op == 65 then
      least = ARGV[a + 3]
      fence = tonumber(least)
    end
    if full or try('EXISTS', name) ~= 0 then break end
    local before = try('SET', token, least, 'KEEPTTL', 'GET')
    if type(before) == 'string' then
      local last = not find(before, '%D') and tonumber(before)
      if not last or last >= fence or last > 9007199254740000 or last - last % half ~= fence - fence % half then
        try('SET', token, before, 'KEEPTTL')
        break
      end
    elseif before then
      break
    end
    full = false
    local kept = before or try('PEXPIRE', token, fence_ttl)
    if type(kept) == 'table' then
      answers[i] = kept.err -- begun anew, it would find a fence key that has no end
    elseif try('HSET', name, owner, '1') == 1 and try('PEXPIRE', name, ARGV[a + 2]) == 1 then
      answers[i] = fence
    else
      break
    end
    k, a = k + 2, a + (op == 65 and 3 or 2)
  elseif op == 114 then
    local fence, last = ARGV[a + 2], try('GET', token)
    if fence == '0' and type(last) == 'string' then fence = last end
    if last ~= fence or try('HLEN', name) ~= 1 or try('HDEL', name, owner) ~= 1 then break end
    local heard = redis.pcall('PUBLISH', KEYS[k + 3], '0')
    answers[i] = type(heard) == 'table' and heard.err or heard > 0 and tidings(name, fence) or heard
    k, a = k + 3, a + 2
  else
    break
  end
  i = i + 1
  op = letter(ops, i)
end
if not op then return answers end

-- All others, one by one.
if full == nil then ask_memory() end
-- library: news advance take free

-- exclusives builds the functions for all cases of exclusive locks, when they are needed.
local acquire, release
local function exclusives()
  -- library: shape fence plain exclusive
  acquire, release = exclusive_acquire, exclusive_release
end

-- The library for kinds that many hold at once is built only if one comes.
local shared, settled
if find(ops, '[bepv]') then
  -- library: many_shared
  shared, settled = share, settle_page
end

-- claim makes the acquisition whose keys come after the k-th and whose arguments come after the a-th. least is nil for the clock.
local function claim(k, a, least)
  local name, token, owner, ttl = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1], ARGV[a + 2]
  if settled then settled(name) end
  if redis.call('EXISTS', name) == 0 then
    if full then return full end
    local fence, bad = take(name, token, owner, ttl, fence_ttl, least and tonumber(least) or now, least or text)
    return fence or bad
  end
  if not acquire then exclusives() end
  return acquire({name = name, token = token}, {
    owner = owner, ttl = tonumber(ttl), fence = least or '0', fence_ttl = fence_ttl,
  })
end

-- give makes the release at k and a, as claim does an acquisition. Without a next owner, successor is ''.
local function give(k, a, successor, ttl, least)
  local name, token, channel, owner, fence = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], ARGV[a + 2]
  if settled then settled(name) end
  local heard = successor == '' and free(name, token, channel, owner, fence)
  if heard then return heard end
  if not release then exclusives() end
  return release({name = name, token = token, channel = channel}, {
    owner = owner, fence = fence, successor = successor, ttl = ttl, least = least, fence_ttl = fence_ttl,
  })
end

for i = i, #ops do
  op = letter(ops, i)
  local _, answer
  if op == 97 then
    _, answer = pcall(claim, k, a)
    k, a = k + 2, a + 2
  elseif op == 65 then
    _, answer = pcall(claim, k, a, ARGV[a + 3])
    k, a = k + 2, a + 3
  elseif op == 114 then
    _, answer = pcall(give, k, a, '')
    k, a = k + 3, a + 2
  elseif op == 104 then
    _, answer = pcall(give, k, a, ARGV[a + 3], ARGV[a + 4], ARGV[a + 5])
    k, a = k + 3, a + 5
  else
    _, answer = pcall(shared, op, i, k, a)
    k = k + ((op == 98 or op == 112) and 4 or 3)
    a = a + (op == 112 and 4 or op == 118 and 3 or 2)
  end
  answers[i] = type(answer) == 'table' and answer.err or answer
end
if settled then settled() end
return answers
