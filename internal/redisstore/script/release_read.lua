-- release_read.lua: give a hold of a reader back: count it down or end it.
-- KEYS    as in acquire_read.lua
-- ARGV[1] owner   ARGV[2] its fence, 0 for any   ARGV[3] hold count afterwards, 0 to end it
-- ARGV[4] redisson_rwlock:{<name>}               ARGV[5] what keys of single holds begin with
-- Returns {1, receivers} if it was counted down or ended; {-1} if the owner does not read, {-2} if it does with another
--         fence. Only when the last one ended there is a message. Each hold has a time of its own: if that of all that
--         would remain has passed, the owner does not read any more.
-- Safe to run twice: a second run finds nothing and answers -1. Nobody else's time is changed. Works when memory is full.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[5]}
return read_release(r, {owner = ARGV[1], fence = ARGV[2], remaining = tonumber(ARGV[3]), channel = ARGV[4]})
