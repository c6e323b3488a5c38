-- raise.lua: raise the fence of a hold, and the last fence of its name, to ARGV[3] at least.
-- KEYS[1] <name>                       hash of the lock
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- KEYS[3] lockd_lock_writer:{<name>}   of a read-write lock; more are not looked at
-- ARGV[1] kind   ARGV[2] owner   ARGV[3] fence   ARGV[4] TTL of the fence key in ms   ARGV[5] base, as in rw.lua
-- Returns {1, the fence of the hold afterwards as text, or '' if there is none} if the owner holds the name, {-1} if it does not.
-- With fence 0 it writes nothing.
-- Safe to run twice, and late: fences only grow. Reads first, writes last. When memory is full the first write fails,
-- so nothing was done.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[5]}
local kind, owner, fence = ARGV[1], ARGV[2], tonumber(ARGV[3])
local bad = (kind == 'read' or kind == 'write') and rw_misfit(r) or plain_misfit(r)
if bad then return bad end

local key -- of the hold, if it has a fence of its own
local had
if kind == 'read' then
  local got = redis.call('HMGET', r.name, 'mode', owner)
  had = got[1] and got[2] -- else it is no lock for readers, and what there is of an earlier one is nobody's
  local text, away
  if had then text, away = read_fence(r, owner, had) end
  if away then return away end
  if not text then return {-1} end
  key = read_key(r, owner, 1)
elseif kind == 'write' then
  local got = redis.call('HMGET', r.name, 'mode', owner .. ':write')
  if not (got[1] and got[2]) then return {-1} end
  key = write_key(r, owner)
  if not all_here(r, {key}) then return on_its_way() end
elseif not plain_hold(r.name, owner) then
  return {-1}
end

if last_fence(r.token) < fence then keep_fence(r.token, fence, ARGV[4]) end
local text = key and redis.pcall('GET', key)
if type(text) == 'string' and is_number(text) and tonumber(text) < fence then redis.call('SET', key, ARGV[3], 'KEEPTTL') end
if kind == 'read' then
  text = read_fence(r, owner, had)
elseif kind == 'write' then
  text = write_fence(r, owner)
else
  text = redis.call('GET', r.token)
end
return {1, text or ''}
