-- renew.lua: prolong holds, many in one call.
-- KEYS    for each hold: <name>, redisson_lock_token:{<name>}
-- ARGV[1] TTL of the fence keys in ms, 0 to leave them alone   ARGV[2] how many holds are exclusive or fair; those come first
--         then for each of those: owner, the least fence of the hold, TTL in ms (0 only verifies)
--         then for each other: owner, fence, TTL, kind (read, write, semaphore), its further keys: what keys of single holds
--         begin with, or {<name>}:timeout (all have the slot of <name>); how many permits, 0 if that is not known
-- Returns 1 if all are exclusive or fair, are there, and last now as long as asked for. Else a list: for each hold how many ms it
--         lasts now (1 if it was only verified) if it is there, 0 if it is not and its fence or a later one is known, -1 if not
--         even that, -2 if its keys are on their way to another node.
-- Safe to run twice: a TTL is set, never added to, and never shortened. All writes are allowed when memory is full, or
-- come after one that is, so held locks live on. A key of another type counts as absent (pcall), so that it does not
-- spoil the answer for the others.
local function call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then return false end
  return reply
end

local fence_ttl = tonumber(ARGV[1])

-- reaches says whether a fence is at least another one.
local function reaches(known, fence) return (tonumber(known) or 0) >= tonumber(fence) end

-- gone is the answer for a hold that is not there.
local function gone(known, fence) return known and reaches(known, fence) and 0 or -1 end

-- The functions for the other kinds. Each prolongs a hold and returns how many ms it lasts, false if it was not there,
-- or -2 if its keys may be on their way. They write even if nothing changes, because a replica, whose data may be old,
-- must not confirm a hold.
local renew = {}

function renew.read(name, h)
  local r = {name = name, base = h.more}
  local got = call('HMGET', name, 'mode', h.owner)
  local fence, away
  if got and got[1] and got[2] then fence, away = read_fence(r, h.owner, got[2]) end
  if away then return -2 end
  if not fence or not reaches(fence, h.fence) then return false end
  extend(name, math.max(h.ttl, (read_left(r, h.owner, got[2])))) -- Redisson may have set it to less than our holds last
  if h.ttl == 0 then return 1 end
  local key = read_key(r, h.owner, 1)
  if #rw_ours({key}) > 0 then return extend(key, h.ttl) end
  rw_note(key, tonumber(fence), h.ttl)
  return h.ttl
end

function renew.write(name, h)
  local got = call('HMGET', name, 'mode', h.owner .. ':write')
  if not (got and got[1] == 'write' and got[2]) then return false end
  local key = write_key({base = h.more}, h.owner)
  local text = call('GET', key)
  if not text and not all_here({name = name}, {key}) then return -2 end
  if text and not reaches(text, h.fence) then return false end
  local left = extend(name, h.ttl)
  if #rw_ours({key}) > 0 then
    redis.call('PEXPIRE', key, left)
  elseif h.fence ~= '0' then
    rw_note(key, tonumber(h.fence), left)
  end
  return h.ttl == 0 and 1 or left
end

function renew.semaphore(name, h)
  local s = {name = name, out = h.more}
  local text = call('GET', name)
  if not text or not is_permits(text) then return false end
  local out = call('ZCARD', s.out)
  if (not out or out == 0) and not all_here(s, {s.out}) then return -2 end
  if not out then return false end
  local now = now_ms()
  local there, missing, first = sem_own(s, h.owner, h.permits, now)
  if #there == 0 or #missing > 0 then return false end
  redis.call('ZREM', s.out, '') -- changes nothing and opens the way for ZADD
  if h.ttl == 0 then return 1 end
  sem_lease(s, there, now + h.ttl)
  sem_live(s, now)
  return math.max(first - now, h.ttl)
end

local answers, as_asked = {}, true
local plain = tonumber(ARGV[2])
local KEYS, ARGV, try = KEYS, ARGV, redis.pcall
for i = 1, plain do
  local name, fence, ttl = KEYS[2 * i - 1], ARGV[3 * i + 1], ARGV[3 * i + 2]
  local known = try('GET', KEYS[2 * i])
  if known ~= fence and type(known) == 'table' then known = false end
  local got = try('HMGET', name, ARGV[3 * i], 'mode')
  if got[1] and not got[2] and (known == fence or not known or reaches(known, fence)) then
    if ttl == '0' then
      prolong(name, '1')
      answers[i] = 1
    else
      local left = prolong(name, ttl)
      if fence_ttl > 0 and (known == fence or known and is_number(known)) then keep(KEYS[2 * i], fence_ttl) end
      answers[i], as_asked = left, as_asked and left == tonumber(ttl)
    end
  else
    answers[i], as_asked = gone(known, fence), false
  end
end
if as_asked and 2 * plain == #KEYS then return 1 end

local at = 3 * plain + 3
for i = plain + 1, #KEYS / 2 do
  local name, token = KEYS[2 * i - 1], KEYS[2 * i]
  local h = {
    owner = ARGV[at], fence = ARGV[at + 1], ttl = tonumber(ARGV[at + 2]), more = ARGV[at + 4],
    permits = tonumber(ARGV[at + 5]),
  }
  local known = call('GET', token)
  local left = renew[ARGV[at + 3]](name, h)
  if left then
    if left > 0 and h.ttl > 0 and fence_ttl > 0 and known and is_number(known) then keep(token, fence_ttl) end
    answers[i] = left
  else
    answers[i] = gone(known, h.fence)
  end
  at = at + 6
end
return answers
