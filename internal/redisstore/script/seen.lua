-- seen.lua: read who holds a name, at one instant.
-- KEYS[1] <name>                       hash or string (Redisson's layouts)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- KEYS[3] {<name>}:timeout             sorted set: permit id -> when it ends
-- ARGV[1] what keys of single holds begin with, see rw.lua   ARGV[2] how many holds are told at most
-- Returns {fence as text or '', 1 if there are more holds and none is told or 0, then for each hold: what it is (lock, read, write, permit), who it is, its fence as text or '',
--         pttl_ms or -1}.
-- Writes nothing. Redis tracks the keys that it reads, so it reads only keys that change when a hold begins, is renewed
-- or ends.
local name, most = KEYS[1], tonumber(ARGV[2])
local what = redis.call('TYPE', name).ok
local token = redis.pcall('GET', KEYS[2])
if type(token) ~= 'string' then token = '' end
local answer = {token, 0}
local function add(kind, who, fence, left)
  if left == -2 then return end
  for _, v in ipairs({kind, who, fence or '', left}) do answer[#answer + 1] = v end
end

if what == 'string' then
  local bad = permits_misfit(KEYS[3])
  if bad then return bad end
  local now = now_ms()
  local from = '(' .. string.format('%.0f', now)
  if redis.call('ZCOUNT', KEYS[3], from, '+inf') > most then return {token, 1} end
  local out = redis.call('ZRANGEBYSCORE', KEYS[3], from, '+inf', 'WITHSCORES')
  for i = 1, #out, 2 do
    local ends = tonumber(out[i + 1])
    add('permit', out[i], '', ends >= 922337203685477 and -1 or ends - now)
  end
  return answer
end
if what ~= 'hash' then
  redis.call('EXISTS', KEYS[3]) -- so that it is tracked: newer servers track what a script reads, not all its keys
  return answer
end

if lock_misfit(name) then return answer end
local r = {name = name, base = ARGV[1]}
if redis.call('HLEN', name) > most + 1 then return {token, 1} end
local mode, fields = redis.call('HGET', name, 'mode'), redis.call('HGETALL', name)
for i = 1, #fields, 2 do
  local field = fields[i]
  local writer = mode and writer_of(field)
  if not mode then
    add('lock', field, token, redis.call('PTTL', name))
  elseif writer then
    if not all_here(r, {write_key(r, writer)}) then return on_its_way() end
    add('write', writer, write_fence(r, writer) or '', redis.call('PTTL', name))
  elseif field ~= 'mode' then
    local fence, away = read_fence(r, field, fields[i + 1])
    if away then return away end
    add('read', field, fence or '', (read_left(r, field, fields[i + 1])))
  end
end
return answer
