-- release_fair.lua: release a hold of a fair lock: free the name, or hand it to another owner.
-- KEYS    as in acquire_all.lua, of a fair lock
-- ARGV[1] owner   ARGV[2] its fence, 0 for any
-- ARGV[3] next owner, '' for none   ARGV[4] its TTL in ms   ARGV[5] TTL of the fence key in ms
-- ARGV[6] redisson_lock__channel:{<name>}
-- ARGV[7] for how many ms the owner has a place before all others from then on, 0 for none
-- Returns {1, receivers, owner} if it was freed, with the waiter that was told or '';
--         {2, fence} if the next owner holds it afterwards; {-1} if the owner does not hold it, {-2} if it holds it with
--         another fence. The owner's place in the queue ends in any case, unless ARGV[7] asks for one.
-- Safe to run twice: a second run finds nothing to free and answers -1, or finds the next owner and answers its fence.
-- Works when memory is full: each branch begins with a write that is allowed then, which opens the way for the others.
-- If the fence key holds no fence, fences are not compared, and the name is freed and not handed over. If something
-- else is at the keys of the queue, the name is freed as if nobody queued.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
  channel = ARGV[6],
}
local r = {owner = ARGV[1], fence = ARGV[2], successor = ARGV[3], ttl = ARGV[4], fence_ttl = ARGV[5]}
local now, place = now_ms(), tonumber(ARGV[7])
local bad = lock_misfit(f.name)
if bad then return bad end
if fair_misfit(f) then f.empty, place = true, 0 end
local head, first = fair_purge(f, now, false)
if place == 0 and fair_forget(f, r.owner) then head = redis.call('LINDEX', f.queue, 0) end
local over, text = plain_over(f, r)
if over then
  if head ~= first then fair_news(f, first) end
  return over
end

local last = r.successor ~= '' and last_fence(f.token)
if last and (not head or head == r.successor) then
  local reply = plain_pass(f, r, last, text)
  fair_forget(f, r.successor)
  fair_turn(f, tonumber(r.ttl))
  return reply
end
redis.call('HDEL', f.name, r.owner)
if place > 0 then
  fair_forget(f, r.owner) -- one that it has, as it asked for another kind as well
  fair_return(f, {r.owner}, now, place)
  head = r.owner
end
return {1, fair_freed(f, head, 'released', text or r.fence), head or ''}
