-- renew_sole.lua: prolong exclusive and fair holds whose owners alone tell that they are there. It does what renew.lua does for
-- nearly all holds, in two commands for each.
-- KEYS    their names; then, if ARGV[1] is not 0, redisson_lock_token:{<name>} for each
-- ARGV[1] TTL of the fence keys in ms, 0 to leave them alone   ARGV[2] how many holds there are; then for each: owner, TTL in ms
-- Returns 1 if all are there and last now as long as asked for. Else a list: for each how many ms it lasts now, 0 if it is not
--         there.
-- Safe to run twice, and with a full memory: see renew.lua.
local fence_ttl, holds = tonumber(ARGV[1]), tonumber(ARGV[2])
local answers, as_asked = {}, true
local KEYS, ARGV, try = KEYS, ARGV, redis.pcall
for i = 1, holds do
  local name, ttl = KEYS[i], ARGV[2 * i + 2]
  local got = try('HMGET', name, ARGV[2 * i + 1], 'mode')
  local left = 0
  if got[1] and not got[2] then
    left = prolong(name, ttl)
    if fence_ttl > 0 then keep(KEYS[holds + i], fence_ttl) end
  end
  answers[i], as_asked = left, as_asked and left == tonumber(ttl)
end
return as_asked and 1 or answers
