-- shorten.lua: have one hold end a TTL from now, even if it would end later.
-- KEYS[1] <name>   KEYS[2] redisson_lock_token:{<name>}   KEYS[3] for a fair lock redisson_lock_queue:{<name>}
-- ARGV[1] kind   ARGV[2] owner   ARGV[3] its least fence   ARGV[4] TTL in ms   ARGV[5] how many permits, 0 if not known
-- ARGV[6] what keys of single holds begin with, or {<name>}:timeout   ARGV[7] channel of those who wait
-- ARGV[8] TTL of the fence keys in ms   ARGV[9] ms since 1970 after which nothing is done
-- Returns 1 if the hold is there, 0 if it is not and its fence or a later one is known, -1 if not even that; -2 if it is
--         too late.
-- Safe to run twice. It never runs late: a TTL that was set meanwhile, and told, must not become shorter. Those who
-- wait are told, as Redisson tells them, so that they do not sleep until the end that they know. The watchers are told
-- that no hold ended. Works when memory is full.
local name, token, queue = KEYS[1], KEYS[2], KEYS[3]
local kind, owner, fence, ttl = ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local permits, more, channel, fence_ttl = tonumber(ARGV[5]), ARGV[6], ARGV[7], tonumber(ARGV[8])
local now = now_ms()
if now > tonumber(ARGV[9]) then return -2 end

-- reaches says whether a fence is at least that of the hold.
local function reaches(known) return (tonumber(known) or 0) >= tonumber(fence) end

local shorten = {}

-- A read hold ends alone. The lock ends with the last of its readers, or with its writer.
function shorten.read()
  local r = {name = name, base = more}
  local got = redis.call('HMGET', name, 'mode', owner)
  local text, away
  if got[1] and got[2] then text, away = read_fence(r, owner, got[2]) end
  if away then return away end
  if not text or not reaches(text) then return false end
  for _, key in ipairs((rw_ours(read_keys(r, owner, 1, math.min(tonumber(got[2]) or 1, 100))))) do -- an older lockd wrote several
    redis.call('PEXPIRE', key, ttl)
  end
  local readers = got[1] == 'read' and rw_readers(r, false)
  if readers and readers.whole then
    redis.call('PEXPIRE', name, math.max(readers.left, 1))
  else
    extend(name, ttl)
  end
  tell(name, channel, '1', 'nothing', '0')
  return true
end

-- A writer's hold ends with the lock. Readers beside it keep their time.
function shorten.write()
  local r = {name = name, base = more}
  local got = redis.call('HMGET', name, 'mode', owner .. ':write')
  if not (got[1] == 'write' and got[2]) then return false end
  local key = write_key(r, owner)
  if not all_here(r, {key}) then return on_its_way() end
  local text = fence ~= '0' and write_fence(r, owner)
  if text and not reaches(text) then return false end
  local readers = rw_readers(r, false)
  local ends = math.max(ttl, readers.left)
  if not readers.whole then ends = math.max(ends, redis.call('PTTL', name)) end
  redis.call('PEXPIRE', name, ends)
  if #rw_ours({key}) > 0 then
    redis.call('PEXPIRE', key, ends)
  elseif fence ~= '0' then
    rw_note(key, tonumber(fence), ends)
  end
  tell(name, channel, '1', 'nothing', '0')
  return true
end

function shorten.semaphore()
  local s = {name = name, out = more, channel = channel}
  if not all_here(s, {s.out}) then return on_its_way() end
  if not sem_number(s) then return false end
  local there, missing = sem_own(s, owner, permits, now)
  if #there == 0 or #missing > 0 then return false end
  redis.call('ZREM', s.out, '') -- changes nothing and opens the way for ZADD
  sem_lease(s, there, now + ttl, 'XX')
  sem_live(s, now)
  tell(name, channel, '1', 'nothing', '0') -- wakes one of Redisson's, which then knows when the next permit ends
  return true
end

local function plain(known)
  local got = redis.call('HMGET', name, owner, 'mode')
  if not got[1] or got[2] or known and not reaches(known) then return false end
  redis.call('PEXPIRE', name, ttl)
  local head = queue and redis.pcall('LINDEX', queue, 0)
  if type(head) == 'string' and is_owner(head) then
    redis.call('PUBLISH', channel .. ':' .. head, '0')
    news(name, 'turn', '0', 0, head)
  end
  tell(name, channel, '0', 'nothing', '0')
  return true
end

-- A key of another type is no hold.
local what = redis.call('TYPE', name).ok
local known = redis.pcall('GET', token)
if type(known) == 'table' then known = false end
local there = what == (kind == 'semaphore' and 'string' or 'hash') and (shorten[kind] or plain)(known)
if type(there) == 'table' then return there end
if there then
  if known and is_number(known) then live_on(token, fence_ttl) end
  return 1
end
return known and reaches(known) and 0 or -1
