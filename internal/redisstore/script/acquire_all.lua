-- acquire_all.lua: take one name or several, of any kind, all or none. A refused claim may keep a place.
-- KEYS    for each claim those of its kind: <name>, redisson_lock_token:{<name>}, and
--         fair         redisson_lock_queue:{<name>}, redisson_lock_timeout:{<name>}, lockd_lock_queue:{<name>}, lockd_lock_suspect:{<name>}
--         read, write  lockd_lock_writer:{<name>}, and keys of single holds, see rw.lua
--         semaphore    {<name>}:timeout
-- ARGV[1] TTL of the fence keys in ms; then for each claim: kind, owner, TTL in ms, the least fence, 0 for the clock, and three more:
--         exclusive    nothing
--         fair         redisson_lock__channel:{<name>}, for how many ms a refused owner keeps a place in the queue, 0 for none
--         read         what keys of single holds begin with, owner of a write hold that does not stand in the way, '' for none
--         write        what keys of single holds begin with, for how many ms a refused owner keeps new readers away, 0 for none
--         semaphore    redisson_sc:{<name>}, permits, limit, 0 for the one that is kept
-- Returns {1, fence, ttl_ms, fence, ttl_ms ...} if all are held afterwards. Else what is in the way of the first that is refused, with
--         its number in second place if there are several: {0, ms, owner} if another holds it, or waits for it, for a fair lock
--         {0, ms, owner, ahead}, with so many before it; {0, ms, ''} if there are not enough permits, with the time until the next
--         one ends; {-4, limit} if the limit is another, 0 if there is none; {-5, limit} if there never are enough.
-- Safe to run twice: the second run finds all held and returns the same fences, for permits greater ones, or prolongs the place. All is
-- read before anything is written, but for what has ended; the first write is the one that fails when memory is full.
local misfits, checks, takes = {}, {}, {}

-- These build the functions of a kind when the first claim of that kind comes.
local build = {}
function build.exclusive()
  -- library: clock plain fair
  misfits.exclusive, checks.exclusive, takes.exclusive = plain_misfit, plain_check, plain_take
  misfits.fair = function(k) return plain_misfit(k) or fair_misfit(k) end
  checks.fair, takes.fair = fair_check, fair_take
end
build.fair = build.exclusive

function build.read()
  -- library: rw
  if #ARGV > 8 then looks_left = 1000 end -- half of what one claim has: this does much besides
  misfits.read, checks.read, takes.read = rw_misfit, read_check, read_take
  misfits.write, checks.write, takes.write = rw_misfit, write_check, write_take
end
build.write = build.read

function build.semaphore()
  -- library: clock semaphore
  misfits.semaphore, checks.semaphore, takes.semaphore = sem_misfit, sem_check, sem_take
end

local widths = {exclusive = 2, fair = 6, read = 3, write = 3, semaphore = 3}
local claims, at = {}, 0
for n = 2, #ARGV, 7 do
  local kind, more, one = ARGV[n], ARGV[n + 4], ARGV[n + 5]
  if not checks[kind] then build[kind]() end
  local third = KEYS[at + 3]
  local claim = {
    kind = kind,
    keys = {
      name = KEYS[at + 1], token = KEYS[at + 2], channel = more, base = more, writer = third, out = third,
      queue = third, timeouts = KEYS[at + 4], places = KEYS[at + 5], suspects = KEYS[at + 6],
    },
    a = {
      owner = ARGV[n + 1], ttl = tonumber(ARGV[n + 2]), fence = ARGV[n + 3], fence_ttl = ARGV[1],
      write_owner = one, place = tonumber(one), permits = tonumber(one), limit = tonumber(ARGV[n + 6]),
    },
  }
  at = at + widths[kind]
  local bad = misfits[kind](claim.keys)
  if bad then return bad end
  claims[#claims + 1] = claim
end

for i, claim in ipairs(claims) do
  local refusal
  refusal, claim.state = checks[claim.kind](claim.keys, claim.a)
  if refusal then
    if #claims > 1 and not refusal.err then table.insert(refusal, 2, i) end
    return refusal
  end
end

local answer = {1}
for _, claim in ipairs(claims) do
  local reply = takes[claim.kind](claim.keys, claim.a, claim.state)
  if reply.err then return reply end
  answer[#answer + 1] = reply[2]
  answer[#answer + 1] = reply[3]
end
return answer
