-- fence.lua: what all scripts share. It is put in front of them, after advance.lua and shape.lua, and is no script by itself.
--
-- Each script checks what is at its keys before its first write, so that no command fails half-way. The error of such a
-- check begins with LOCKDKIND and says that nothing was changed; any other error leaves that open.
--
-- A fence key holds the last fence of a name, in decimal. Numbers stay below 2^53, where Lua's are exact.

-- number_of reads the text of a fence key. If it is no fence, going on from it could make fences smaller: then the
-- second result is an error reply.
local function number_of(text)
  local fence = string.match(text, '^%d+$') and tonumber(text)
  if not fence or fence > 9007199254740000 then
    return nil, other_kind('the fence key holds no fence')
  end
  return fence
end

-- last_fence returns the fence in a key, 0 if there is none, or nil and an error reply if something else is in it.
local function last_fence(key)
  local text = redis.pcall('GET', key)
  if not text then return 0 end
  if type(text) == 'table' then return nil, other_kind('the fence key is no string') end
  return number_of(text)
end

-- fence_text is the fence of the only hold of a name: the last one, or '0' if its owner is not lockd's.
local function fence_text(name, key)
  local owner = redis.call('HKEYS', name)[1] or ''
  if not string.find(owner, '#', 1, true) and string.sub(owner, -6) ~= ':unary' then return '0' end
  local text = redis.pcall('GET', key)
  return type(text) == 'string' and text or '0'
end

-- next_fence returns max(last + 1, now in microseconds), so fences grow on even if the key was lost. least, as text,
-- takes the place of now unless it is '0' or nil.
local function next_fence(last, least)
  if least and least ~= '0' then return math.max(last + 1, tonumber(least)) end
  local now = redis.call('TIME')
  return math.max(last + 1, tonumber(now[1]) * 1000000 + tonumber(now[2]))
end

-- live_on has a fence key live for half of ttl ms at least, when there is no new fence. See live_again.
local function live_on(key, ttl)
  local left = redis.call('PTTL', key)
  if left >= 0 and left < ttl / 2 then redis.call('PEXPIRE', key, ttl) end
end

-- keep_fence stores a fence.
local function keep_fence(key, fence, ttl)
  local before = redis.call('SET', key, string.format('%.0f', fence), 'KEEPTTL', 'GET')
  if before then
    live_again(key, ttl, tonumber(before), fence)
  else
    redis.call('PEXPIRE', key, ttl)
  end
end

-- again_fence has the fence key of a hold that goes on live on, and returns its fence, last. If last is 0, the key was
-- lost, and it stores and returns a new fence, as from next_fence.
local function again_fence(key, last, ttl, least)
  if last > 0 then
    live_on(key, ttl)
    return last
  end
  last = next_fence(0, least)
  keep_fence(key, last, ttl)
  return last
end

-- extend prolongs a key unless it lives long enough, and returns how many ms it lives. It writes in any case, because a
-- replica must not confirm a hold.
local function extend(key, ttl)
  local left = math.max(redis.call('PTTL', key), ttl, 1)
  redis.call('PEXPIRE', key, left)
  return left
end

-- grant_fence is advance_fence with least, as text, or with the clock if least is '0' or nil.
local function grant_fence(key, ttl, least)
  if least and least ~= '0' then return advance_fence(key, ttl, tonumber(least), least) end
  local now = next_fence(0)
  return advance_fence(key, ttl, now, string.format('%.0f', now))
end

-- of_lockd says whether an owner is lockd's, not Redisson's: it has a # or ends with :unary.
local function of_lockd(owner) return string.find(owner, '#', 1, true) or string.sub(owner, -6) == ':unary' end
