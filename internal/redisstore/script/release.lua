-- release.lua: release a hold: free the name, or hand it to another owner.
-- KEYS[1] <name>                          hash: owner -> 1, with a TTL (Redisson's layout)
-- KEYS[2] redisson_lock_token:{<name>}    last fence handed out
-- KEYS[3] redisson_lock__channel:{<name>} channel for those who wait
-- ARGV[1] owner   ARGV[2] its fence, 0 for any
-- ARGV[3] next owner, '' for none   ARGV[4] its TTL in ms   ARGV[5] TTL of the fence key in ms
-- ARGV[6] its least fence, 0 for the clock
-- Returns {1, receivers} if it was freed, {2, fence} if the next owner holds it afterwards,
--         {-1} if the owner does not hold it, {-2} if it holds it with another fence.
-- Safe to run twice: a second run finds nothing to free and answers -1, or finds the next owner and answers its fence.
-- Works when memory is full: each branch begins with a write that is allowed then, which opens the way for the others.
-- If the fence key holds no fence, fences are not compared, and the name is freed and not handed over.
-- The ordinary case stands before the library, because to build the library costs more than a command.
local heard = ARGV[3] == '' and free(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2])
if heard then return {1, heard} end

-- library: advance shape fence plain exclusive
return exclusive_release({name = KEYS[1], token = KEYS[2], channel = KEYS[3]}, {
  owner = ARGV[1], fence = ARGV[2], successor = ARGV[3], ttl = ARGV[4], fence_ttl = ARGV[5], least = ARGV[6],
})
