-- take_session.lua: give a session to an attempt.
-- KEYS, ARGV and what it returns: see session.lua.
-- Safe to run twice: the attempt has the session already. Safe to run late: another one has a greater epoch, or there
-- is no record.
local had, bad = session_had()
if bad then return bad end
if had and had.ended then return {-1} end
if not had and ARGV[1] ~= '1' then return {-1} end
if had and had.token ~= ARGV[3] then return {-6} end
if had and session_elsewhere(had) then return {-2} end
return session_write()
