-- force_session.lua: end the record of a session, whatever epoch it has. A mark is left, which tells this to late
-- commands, and to the replica that has the session when that prolongs the record. The mark is left even if there is no
-- record, or one of an older attempt: another member of a majority may have what is missing here.
-- KEYS[1]: see session.lua.   ARGV[1] for how many ms the mark is left at least
-- Returns {1}; or {-1} if there was no record.
-- Safe to run twice, and late: then there is none. Works when memory is full: DEL is allowed then, and opens the way for the others.
local had, bad = session_had()
if bad then return bad end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'epoch', had and had.epoch_text or '0', 'ended', 'force')
redis.call('PEXPIRE', KEYS[1], math.max(left, tonumber(ARGV[1])))
return {had and not had.ended and 1 or -1}
