-- release_read.lua: end the hold of a reader.
-- KEYS    as in acquire_all.lua, of a reader
-- ARGV[1] owner   ARGV[2] its fence, 0 for any
-- ARGV[3] redisson_rwlock:{<name>}               ARGV[4] what keys of single holds begin with
-- Returns {1, receivers} if it was ended; {-1} if the owner does not read, {-2} if it does with another fence. Only when the last
--         reader left there is a message.
-- Safe to run twice: a second run finds nothing and answers -1. Nobody else's time is changed. Works when memory is full.
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[4]}
return read_release(r, {owner = ARGV[1], fence = ARGV[2], channel = ARGV[3]})
