-- clock.lua: the time, as scripts need it. It is put in front of others and is no script by itself.

-- now_ms is the time of Redis in ms since 1970, the unit of all scores.
local function now_ms()
  local now = redis.call('TIME')
  return tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
end
