-- keep_session.lua: prolong the record of a session.
-- KEYS, ARGV and what it returns: see session.lua.   ARGV[7] 1 to make it again if it is gone
-- Safe to run twice, and late: the time only grows, and one that was ended is not made again.
local had, bad = session_had()
if bad then return bad end
if had and had.ended then
  if had.ended == 'force' or had.epoch >= tonumber(ARGV[1]) then return {-1} end
  had = nil -- an older attempt was ended late, when the record was lost
end
if not had and ARGV[7] ~= '1' then return {-1} end
if had and session_elsewhere(had) then return {-2} end
if had and had.epoch == tonumber(ARGV[1]) then -- the usual case: also when memory is full
  local ttl = tonumber(ARGV[6])
  if redis.call('PTTL', KEYS[1]) < ttl then redis.call('PEXPIRE', KEYS[1], ttl) end
  return {1}
end
redis.call('HDEL', KEYS[1], 'ended')
return session_write()
