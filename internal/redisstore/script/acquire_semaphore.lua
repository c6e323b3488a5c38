-- acquire_semaphore.lua: take permits for an owner, once or again.
-- KEYS[1] <name>                       string: permits to be had (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- KEYS[3] {<name>}:timeout             sorted set: permit id -> when it ends (Redisson's layout)
-- ARGV[1] owner   ARGV[2] permits   ARGV[3] TTL in ms   ARGV[4] limit, 0 for the one that is kept
-- ARGV[5] TTL of the fence key in ms                    ARGV[6] redisson_sc:{<name>}
-- Returns {1, fence, ttl_ms} if the owner has them afterwards; {0, ms, ''} if there are not enough, with the time until the
--         next one ends; {-4, limit} if the limit is another, 0 if there is none; {-5, limit} if there never are enough.
-- Safe to run twice: the second run finds the owner's permits, and returns a greater fence. Reads first, writes last, but
-- for permits that have ended; so when memory is full nothing else was done.
local s = {name = KEYS[1], token = KEYS[2], out = KEYS[3], channel = ARGV[6]}
local a = {
  owner = ARGV[1], permits = tonumber(ARGV[2]), ttl = tonumber(ARGV[3]), limit = tonumber(ARGV[4]), fence_ttl = ARGV[5],
}
return sem_acquire(s, a)
