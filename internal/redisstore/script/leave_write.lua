-- leave_write.lua: remove the mark of a writer that waits no more, so that new readers are let in again.
-- KEYS[1] lockd_lock_writer:{<name>} owner that waits to write, with a TTL
-- KEYS[2] <name>
-- ARGV[1] redisson_rwlock:{<name>}   ARGV[2...] the writers that do not wait any more
-- Returns {1}, always.
-- Safe to run twice: a second run finds none of them and tells nobody. Works when memory is full.
local writer = redis.pcall('GET', KEYS[1]) -- an error is nobody's mark
for i = 2, #ARGV do
  if writer == ARGV[i] then
    redis.call('DEL', KEYS[1])
    tell(KEYS[2], ARGV[1], '1', 'nothing', '0')
    break
  end
end
return {1}
