-- force_rw.lua: end all read holds of a name, or its write hold, whosever they are.
-- KEYS    as in acquire_all.lua, of a reader
-- ARGV[1] lockd:control   ARGV[2] message that tells all replicas of lockd   ARGV[3] redisson_rwlock:{<name>}
-- ARGV[4] read or write   ARGV[5] what keys of single holds begin with
-- ARGV[6] ms since 1970 after which nothing is done
-- Returns 1 if it was held in that mode, 0 if not, -2 if it is too late, -3 if it is no read-write lock.
-- Safe to run twice: a second run finds nothing and tells nobody. It never runs late: somebody else may have the name by then.
if now_ms() > tonumber(ARGV[6]) then return -2 end
local r = {name = KEYS[1], token = KEYS[2], writer = KEYS[3], base = ARGV[5]}
local bad = lock_misfit(r.name)
if bad then return bad end
local mode = redis.call('HGET', r.name, 'mode')
if not mode then return redis.call('EXISTS', r.name) == 1 and -3 or 0 end
if mode ~= ARGV[4] then return 0 end
-- If there are very many holds, their keys are left to end by themselves. Most readers have one hold: these keys are
-- read and deleted many at a time.
local fences, single = {}, {}
local list = redis.call('HLEN', r.name) <= 1000 and redis.call('HGETALL', r.name) or {}
for i = 1, #list, 2 do
  local writer, count = writer_of(list[i]), tonumber(list[i + 1]) or 1
  if writer then
    fences[#fences + 1] = rw_drop({write_key(r, writer)})[1] or '0'
  elseif list[i] ~= 'mode' and count == 1 then
    single[#single + 1] = read_key(r, list[i], 1)
  elseif list[i] ~= 'mode' and count <= looks_left then
    looks_left = looks_left - count
    local fence = read_fence(r, list[i], count)
    if fence then fences[#fences + 1] = rw_fence(fence) end
    read_drop(r, list[i], count)
  end
end
for from = 1, #single, 100 do
  local to = math.min(from + 99, #single)
  for _, fence in ipairs(rw_drop({unpack(single, from, to)})) do fences[#fences + 1] = rw_fence(fence) end
end
redis.call('UNLINK', r.name)
if mode == 'read' then
  tell(r.name, ARGV[3], '0', 'forced', fences[1] or '0')
else
  rw_written(r.name, ARGV[3], 'forced', fences[1] or '0')
end
for i = 2, #fences do news(r.name, 'forced', fences[i], 0) end
redis.call('publish', ARGV[1], ARGV[2]) -- to all, see script.go
return 1
