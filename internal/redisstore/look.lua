-- look.lua: read what is known of a name, at one instant.
-- KEYS[1] <name>                       hash: owner -> hold count, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>} last fence handed out
-- Returns {pttl_ms, fence as text or '', field, value, field, value ...}.
-- Writes nothing.
local reply = redis.call('HGETALL', KEYS[1])
table.insert(reply, 1, redis.call('PTTL', KEYS[1]))
table.insert(reply, 2, redis.call('GET', KEYS[2]) or '')
return reply
