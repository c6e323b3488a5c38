-- end_session.lua: end the record of a session. For a while a mark is left, which tells late commands that it has
-- ended.
-- KEYS[1], ARGV[1] and what it returns: see session.lua.   ARGV[2] for how many ms the mark is left
-- Safe to run twice, and late: then nobody has the session, or an attempt with a greater epoch has it. Works when
-- memory is full: DEL is allowed then, and opens the way for the others.
local had, bad = session_had()
if bad then return bad end
if had and had.epoch > tonumber(ARGV[1]) then return {-2} end
local forced = had and had.ended == 'force'
local left = forced and redis.call('PTTL', KEYS[1]) or 0
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'ended', forced and 'force' or '1')
redis.call('PEXPIRE', KEYS[1], math.max(left, tonumber(ARGV[2])))
return {1}
