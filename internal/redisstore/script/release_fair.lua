-- release_fair.lua: give a hold of a fair lock back: count it down, free the name, or hand it to another owner.
-- KEYS    as in acquire_fair.lua
-- ARGV[1] owner   ARGV[2] its fence, 0 for any   ARGV[3] hold count afterwards, 0 to free
-- ARGV[4] next owner, '' for none   ARGV[5] its TTL in ms   ARGV[6] TTL of the fence key in ms
-- ARGV[7] redisson_lock__channel:{<name>}
-- Returns {1, receivers, owner} if it was counted down or freed, with the waiter that was told or '';
--         {2, fence} if the next owner holds it afterwards; {-1} if the owner does not hold it, {-2} if it holds it with
--         another fence. When it is to be freed the owner's place in the queue ends in any case.
-- Safe to run twice: a second run finds nothing to free and answers -1, or finds the next owner and answers its fence.
-- Works when memory is full: each branch begins with a write that is allowed then, which opens the way for the others.
-- A fence key that holds no fence is not compared, and then the name is freed and not handed over. If something else is at
-- the keys of the queue, the name is freed as if nobody queued.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
  channel = ARGV[7],
}
local owner, fence, remaining, successor = ARGV[1], ARGV[2], ARGV[3], ARGV[4]
local bad = lock_misfit(f.name)
if bad then return bad end
if fair_misfit(f) then f.empty = true end
local held = plain_hold(f.name, owner)
local head, first = fair_purge(f, now_ms(), false)
if remaining == '0' and fair_forget(f, owner) then head = redis.call('LINDEX', f.queue, 0) end
if head ~= first and (not held or remaining ~= '0') then fair_news(f, first) end

if not held then
  if successor ~= '' and plain_hold(f.name, successor) then return plain_handed(f, ARGV[5], ARGV[6]) end
  return {-1}
end
local text = redis.pcall('GET', f.token)
if type(text) == 'table' then text = false end
if text and fence ~= '0' and text ~= fence then return {-2} end

if remaining ~= '0' then
  local left = redis.call('PTTL', f.name)
  if left > 0 then redis.call('PEXPIRE', f.name, left) end
  redis.call('HSET', f.name, owner, remaining)
  return {1, 0, ''}
end

local last = successor ~= '' and last_fence(f.token)
if last and (not head or head == successor) then
  local reply = plain_pass(f, owner, fence, last, successor, ARGV[5], ARGV[6])
  news(f.name, 'handed', text or fence, 0)
  fair_forget(f, successor)
  fair_turn(f, tonumber(ARGV[5]))
  return reply
end
redis.call('HDEL', f.name, owner)
return {1, fair_freed(f, head, 'released', text or fence), head or ''}
