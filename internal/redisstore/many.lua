-- many.lua: acquisitions and releases of exclusive locks, one after the other, each as if it were alone.
-- KEYS    for each: <name>, redisson_lock_token:{<name>}; but for an acquisition also redisson_lock__channel:{<name>}
-- ARGV[1] what each is, a letter for each: a acquisition with count 1, r release with count 0, h the same with a next owner
-- ARGV[2] TTL of the fence keys in ms; then for each:
--         a  owner, TTL in ms
--         r  owner, its fence, 0 for any
--         h  owner, its fence, 0 for any, next owner, its TTL in ms
-- Returns a list with one element for each: the fence if a took a free name; how many heard of it if r freed a name; else what
--         acquire.lua or release.lua answers: a list, or the text of an error. (An error in a list ends what go-redis reads.)
-- Safe to run twice: each is. No error ends the script: each is caught, and is the answer of one alone. Whether memory is full
-- is found out before the first write, because Redis refuses no write after it: so each acquisition has the answer it would
-- have by itself, whatever stands before it.
local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local text = string.format('%.0f', now)
local ops, fence_ttl = ARGV[1], ARGV[2]

-- A command that a full Redis refuses, and that writes nothing.
local full = redis.pcall('SETRANGE', KEYS[2], 0, '')
full = type(full) == 'table' and string.find(full.err, 'OOM ', 1, true) and full

-- library is built when the first one needs it.
local acquire, release
local function library()
  -- library: fence plain exclusive
  acquire, release = exclusive_acquire, exclusive_release
end

-- claim makes the acquisition whose keys come after the k-th and whose arguments come after the a-th.
local function claim(k, a)
  local name, token, owner, ttl = KEYS[k + 1], KEYS[k + 2], ARGV[a + 1], ARGV[a + 2]
  if redis.call('EXISTS', name) == 0 then
    if full then return full end
    local fence, bad = take(name, token, owner, ttl, fence_ttl, now, text)
    return fence or bad
  end
  if not acquire then library() end
  return acquire({name = name, token = token}, {
    owner = owner, count = '1', ttl = tonumber(ttl), fence = '0', fence_ttl = fence_ttl,
  })
end

-- give makes such a release. Without a next owner, heir is ''.
local function give(k, a, heir, ttl)
  local name, token, channel, owner, fence = KEYS[k + 1], KEYS[k + 2], KEYS[k + 3], ARGV[a + 1], ARGV[a + 2]
  local heard = heir == '' and free(name, token, channel, owner, fence)
  if heard then return heard end
  if not release then library() end
  return release({name = name, token = token, channel = channel}, {
    owner = owner, fence = fence, remaining = '0', heir = heir, ttl = ttl, fence_ttl = fence_ttl,
  })
end

local answers, k, a = {}, 0, 2
for i = 1, #ops do
  local op = string.byte(ops, i)
  local _, answer
  if op == 97 then
    _, answer = pcall(claim, k, a)
    k, a = k + 2, a + 2
  elseif op == 114 then
    _, answer = pcall(give, k, a, '')
    k, a = k + 3, a + 2
  else
    _, answer = pcall(give, k, a, ARGV[a + 3], ARGV[a + 4])
    k, a = k + 3, a + 4
  end
  answers[i] = type(answer) == 'table' and answer.err or answer
end
return answers
