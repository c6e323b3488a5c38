-- adopt_semaphore.lua: use a number that another program made, as Redisson's trySetPermits does, as that of a
-- semaphore.
-- KEYS    as in acquire_all.lua, of a semaphore
-- ARGV[1] limit, which the number must be   ARGV[2] TTL of the fence key in ms
-- Returns {1, limit} if it is a semaphore afterwards; {-4, limit} if the limit is another, 0 if there is none.
-- Safe to run twice: the second run finds the semaphore. The number stays as it is. An operator asks for this, and only
-- the operator knows what the number is for.
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3]}
local available, bad = sem_number(s)
local last
if not bad then last, bad = last_fence(s.token) end
if bad then return bad end
if not available then return {-4, 0} end
local limit = available + redis.call('ZCARD', s.out)
if limit ~= tonumber(ARGV[1]) then return {-4, limit} end
if last == 0 then keep_fence(s.token, next_fence(0), ARGV[2]) else live_on(s.token, ARGV[2]) end
return {1, limit}
