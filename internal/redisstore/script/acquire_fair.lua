-- acquire_fair.lua: take a name for an owner when it is its turn, once or again; or keep a place in the queue.
-- KEYS[1] <name>                          hash: owner -> 1, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>}    last fence handed out
-- KEYS[3] redisson_lock_queue:{<name>}    list: waiters, the next one first (Redisson's)
-- KEYS[4] redisson_lock_timeout:{<name>}  sorted set: waiter -> when Redisson takes it for dead (Redisson's)
-- KEYS[5] lockd_lock_queue:{<name>}       sorted set: our waiter -> until when its place lives, with a TTL
-- KEYS[6] lockd_lock_suspect:{<name>}     hash: a silent waiter of Redisson -> since when, with a TTL
-- ARGV[1] owner   ARGV[2] TTL in ms   ARGV[3] the least fence it is to have, 0 for the clock   ARGV[4] TTL of the fence key in ms
-- ARGV[5] how many ms a place lives, 0 for none   ARGV[6] redisson_lock__channel:{<name>}
-- Returns {1, fence, ttl_ms} if the owner holds the name afterwards; {0, ms, owner, ahead} if another does or waits
--         before it.
-- Safe to run twice: the second run returns the same fence, or prolongs the place. Reads first, writes last, but for
-- the dead that are taken out of the queue; so when memory is full nothing else was done.
local f = {
  name = KEYS[1], token = KEYS[2], queue = KEYS[3], timeouts = KEYS[4], places = KEYS[5], suspects = KEYS[6],
  channel = ARGV[6],
}
local a = {owner = ARGV[1], ttl = tonumber(ARGV[2]), fence = ARGV[3], fence_ttl = ARGV[4], place = tonumber(ARGV[5])}
local bad = plain_misfit(f) or fair_misfit(f)
if bad then return bad end
local refusal, mine = fair_check(f, a)
return refusal or fair_take(f, a, mine)
