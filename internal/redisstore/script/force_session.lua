-- force_session.lua: end the record of a session, whatever epoch it has. What is left says so to commands that come late, and to whoever has
-- the session: it prolongs the record before that runs out.
-- KEYS[1]: see session.lua.   ARGV[1] for how many ms something is left at least
-- Returns {1}; or {-1} if there is no record.
-- Safe to run twice, and late: then there is none. Works when memory is full: DEL is allowed then, and opens the way for the others.
local had, bad = session_had()
if bad then return bad end
if not had or had.ended then return {-1} end
local left = redis.call('PTTL', KEYS[1])
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'epoch', had.epoch, 'ended', '1')
redis.call('PEXPIRE', KEYS[1], math.max(left, tonumber(ARGV[1])))
return {1}
