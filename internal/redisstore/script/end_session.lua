-- end_session.lua: remove the record of a session.
-- KEYS[1], ARGV[1] and what it returns: see session.lua.
-- Safe to run twice: a second run finds none. Late: nobody has the session any more, or with a greater epoch.
local had, bad = session_had()
if bad then return bad end
if had and had.epoch > tonumber(ARGV[1]) then return {-2} end
redis.call('DEL', KEYS[1])
return {1}
