-- holders.lua: read who holds a name, at one instant.
-- KEYS[1] <name>                       hash (Redisson's layouts)
-- ARGV[1] what keys of single holds begin with, see rw.lua   ARGV[2] how many holders at most
-- Returns for each holder: owner, kind, count as text, pttl_ms. Permits have no owners that could be read.
-- Writes nothing.
local r = {name = KEYS[1], base = ARGV[1]}
local most, answer, n = tonumber(ARGV[2]), {}, 0

local function add(owner, kind, count, left)
  if n >= 4 * most or left == -2 then return end
  answer[n + 1], answer[n + 2], answer[n + 3], answer[n + 4] = owner, kind, count, left
  n = n + 4
end

if redis.call('TYPE', r.name).ok ~= 'hash' or lock_misfit(r.name) then return answer end
local left, mode = redis.call('PTTL', r.name), redis.call('HGET', r.name, 'mode')
-- Of very many holders only some are read. A writer has few fields beside its own.
local many = redis.call('HLEN', r.name) > most + 2
local list = many and redis.call('HRANDFIELD', r.name, most + 2, 'WITHVALUES') or redis.call('HGETALL', r.name)
for i = 1, #list, 2 do
  local owner, count = list[i], list[i + 1]
  local writer = mode and writer_of(owner)
  if not mode then
    add(owner, 'exclusive', count, left)
  elseif writer then
    add(writer, 'write', count, left)
  elseif owner ~= 'mode' then
    local longest, _, away = read_left(r, owner, count)
    if away then return on_its_way() end
    add(owner, 'read', count, longest)
  end
end
return answer
