-- acquire_all.lua: take several names, all or none.
-- KEYS    for each claim those of its kind, as in acquire.lua, acquire_fair.lua, acquire_read.lua, acquire_semaphore.lua
-- ARGV[1] TTL of the fence keys in ms; then for each claim: kind, owner, TTL in ms, the least fence, 0 for the clock, and three more:
--         exclusive   nothing
--         fair        redisson_lock__channel:{<name>}
--         read        owner of a write hold that does not stand in the way, what keys of single holds begin with
--         write       nothing, what keys of single holds begin with
--         semaphore   permits, limit, redisson_sc:{<name>}
-- Returns {1, 0, fence, ttl_ms, fence, ttl_ms ...} if all are held afterwards; else what the script for one claim answers to
--         the first that is refused, with its number put in second place.
-- Safe to run twice: the second run finds all held and returns what the scripts for one would. All is read before anything
-- is written, but for what has ended; the first write is the one that fails when memory is full.
looks_left = 1000 -- half of what scripts for one name have: this one does much besides
local widths = {exclusive = 2, fair = 6, read = 3, write = 3, semaphore = 3}
local misfits = {exclusive = plain_misfit, read = rw_misfit, write = rw_misfit, semaphore = sem_misfit}
function misfits.fair(k) return plain_misfit(k) or fair_misfit(k) end
local checks = {exclusive = plain_check, fair = fair_check, read = read_check, write = write_check, semaphore = sem_check}
local takes = {exclusive = plain_take, fair = fair_take, read = read_take, write = write_take, semaphore = sem_take}

-- keys_of names the keys and channels of a claim, which begin after the at-th.
local function keys_of(kind, at, one, two, three)
  local k = {name = KEYS[at + 1], token = KEYS[at + 2]}
  if kind == 'fair' then
    k.queue, k.timeouts, k.places, k.suspects = KEYS[at + 3], KEYS[at + 4], KEYS[at + 5], KEYS[at + 6]
    k.channel = one
  elseif kind == 'semaphore' then
    k.out, k.channel = KEYS[at + 3], three
  elseif kind ~= 'exclusive' then
    k.writer, k.base = KEYS[at + 3], two
  end
  return k
end

local claims, at = {}, 0
for i = 1, (#ARGV - 1) / 7 do
  local n = 7 * i - 5
  local kind, one, two = ARGV[n], ARGV[n + 4], ARGV[n + 5]
  local claim = {
    kind = kind, keys = keys_of(kind, at, one, two, ARGV[n + 6]),
    a = {
      owner = ARGV[n + 1], ttl = tonumber(ARGV[n + 2]), fence_ttl = ARGV[1], fence = ARGV[n + 3], place = 0,
      write_owner = one, permits = tonumber(one), limit = tonumber(two),
    },
  }
  at = at + widths[kind]
  local bad = misfits[kind](claim.keys)
  if bad then return bad end
  claims[i] = claim
end

for i, claim in ipairs(claims) do
  local refusal
  refusal, claim.state = checks[claim.kind](claim.keys, claim.a)
  if refusal then
    table.insert(refusal, 2, i)
    return refusal
  end
end

local answer = {1, 0}
for _, claim in ipairs(claims) do
  local reply = takes[claim.kind](claim.keys, claim.a, claim.state)
  if reply.err then return reply end
  answer[#answer + 1] = reply[2]
  answer[#answer + 1] = reply[3]
end
return answer
