-- enlist.lua: keep the places of fair waiters, or give places to those that have none.
-- KEYS    as in acquire_all.lua, of a fair lock
-- ARGV[1] how many ms a place lives   ARGV[2] redisson_lock__channel:{<name>}   ARGV[3...] the waiters, at most 500
-- Returns for each how many are before it, -1 if it had its place already, -2 if it holds the name.
-- Safe to run twice: the second run finds everybody there. It costs a few commands, however many waiters there are, and
-- one more for each that was taken out of the queue although its place lived.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
  channel = ARGV[2],
}
local place, now = tonumber(ARGV[1]), now_ms()
local owners = {}
for i = 3, #ARGV do owners[i - 2] = ARGV[i] end

local bad = plain_misfit(f) or fair_misfit(f)
if bad then return bad end
local holder = redis.call('HLEN', f.name) == 1 and redis.call('HKEYS', f.name)[1]
local _, first = fair_purge(f, now, true)
local queued = redis.call('ZMSCORE', f.timeouts, unpack(owners))
local living = redis.call('ZMSCORE', f.places, unpack(owners))

local answers, stay, back, new, seen = {}, {}, {}, {}, {}
for i, owner in ipairs(owners) do
  answers[i] = -1
  if owner == holder then
    answers[i] = -2
  elseif queued[i] then
    stay[#stay + 1] = owner
  elseif not seen[owner] then
    local list = living[i] and tonumber(living[i]) > now and back or new
    list[#list + 1] = owner
  end
  seen[owner] = true
end

if #stay > 0 then fair_stay(f, stay, now, place) end
if #back > 0 then fair_return(f, back, now, place) end
local behind = #new > 0 and fair_join(f, new, now, place)
local b, n = 1, 1
for i, owner in ipairs(owners) do
  if owner == back[b] then
    answers[i] = b - 1
    b = b + 1
  elseif owner == new[n] then
    answers[i] = behind + n - 1
    n = n + 1
  end
end
fair_news(f, first)
return answers
