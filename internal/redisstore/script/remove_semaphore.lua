-- remove_semaphore.lua: forget a semaphore of which no permit is out.
-- KEYS    as in acquire_all.lua, of a semaphore
-- Returns {1, limit before, 0 if there was none}, or {0, pttl_ms, ''} while permits are out, with the time until all have ended.
-- Safe to run twice: the second run finds none. Works when memory is full.
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3]}
local available, bad = sem_available(s)
if bad then return bad end
local now = now_ms()
local left = available and permits_last(s.out, now) or 0
if left >= 922337203685477 - now then return {0, -1, ''} end
if left > 0 then return {0, left, ''} end
local limit = available and available + redis.call('ZCARD', s.out) or 0
redis.call('UNLINK', s.name, s.out)
return {1, limit}
