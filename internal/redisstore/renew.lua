-- renew.lua: prolong holds, many in one call.
-- KEYS    for each hold: <name>, redisson_lock_token:{<name>}
-- ARGV[1] TTL of the fence keys in ms; then for each hold: owner, fence (0 for any), TTL in ms (0 only verifies)
-- Returns for each hold 1 if it is there, 0 if it is not and its fence or a later one is known, -1 if not even that.
-- Safe to run twice: a TTL is set, never added to, and never shortened.
-- Only commands that are allowed when memory is full, so held locks live on. A key of another type counts as absent
-- (pcall), so that one of them does not spoil the answer for the others.
local function call(...)
  local reply = redis.pcall(...)
  if type(reply) == 'table' and reply.err then return false end
  return reply
end

local fence_ttl = tonumber(ARGV[1])
local answers = {}
for i = 1, #KEYS / 2 do
  local name, token = KEYS[2 * i - 1], KEYS[2 * i]
  local owner, fence, ttl = ARGV[3 * i - 1], ARGV[3 * i], tonumber(ARGV[3 * i + 1])
  local known = call('GET', token)
  local there = call('HEXISTS', name, owner) == 1
  if there and (not known or fence == '0' or known == fence) then
    -- Written even if nothing changes: a replica, whose data may be old, must not confirm a hold.
    redis.call('PEXPIRE', name, math.max(redis.call('PTTL', name), ttl, 1))
    if ttl > 0 then
      -- A fence key is used again long before it ends, also by locks that are held for longer than that.
      if known and redis.call('PTTL', token) < fence_ttl / 2 then redis.call('PEXPIRE', token, fence_ttl) end
    end
    answers[i] = 1
  elseif known and (tonumber(known) or 0) >= tonumber(fence) then
    answers[i] = 0
  else
    answers[i] = -1
  end
end
return answers
