-- plain.lua: holds of an exclusive or fair lock: a hash with one field, owner -> hold count. It is put in front of scripts,
-- after fence.lua, and is no script by itself. acquire.lua has the same rules in fewer commands.
--
-- p has the keys: name, token. a is a claim: owner, count and fence as texts, ttl and fence_ttl in ms.

-- plain_misfit returns an error reply if something else is at the keys.
local function plain_misfit(p)
  local _, bad = last_fence(p.token)
  return bad or lock_misfit(p.name)
end

-- plain_hold returns the hold count of an owner that alone holds the name, else false; and how many fields there are.
local function plain_hold(name, owner)
  local fields = redis.call('HLEN', name)
  return fields == 1 and redis.call('HGET', name, owner), fields
end

-- plain_check returns nil if the owner may take the name or holds it, and in the latter case its count; else the answer
-- that refuses it.
local function plain_check(p, a)
  local mine, fields = plain_hold(p.name, a.owner)
  if mine then return nil, mine end
  if a.count ~= '1' then return {-1} end
  if fields == 0 then return nil end
  -- More than one field is a read-write lock; with one holder the other field is its mode.
  local hint = ''
  if fields <= 2 then
    for _, field in ipairs(redis.call('HKEYS', p.name)) do
      if field ~= 'mode' then hint = string.match(field, '^(.*):write$') or field end
    end
  end
  return {0, redis.call('PTTL', p.name), hint}
end

-- plain_again lets an owner that holds the name mine times hold it so often as it claims, for longer.
local function plain_again(p, a, mine)
  local fence, bad = last_fence(p.token)
  if bad then return bad end
  local known = fence > 0
  if a.count ~= '1' and known and fence ~= tonumber(a.fence) then return {-2} end
  if not known then
    fence = tonumber(a.fence)
    if fence == 0 then fence = next_fence(0) end
  end
  local left = redis.call('PTTL', p.name)
  if mine ~= a.count then redis.call('HSET', p.name, a.owner, a.count) end
  redis.call('PEXPIRE', p.name, math.max(left, a.ttl)) -- in any case: a replica must not confirm a hold
  if known then
    live_on(p.token, a.fence_ttl)
  else
    keep_fence(p.token, fence, a.fence_ttl)
  end
  return {1, fence, math.max(left, a.ttl)}
end

-- plain_take gives the owner what plain_check let it have.
local function plain_take(p, a, mine)
  if mine then return plain_again(p, a, mine) end
  local fence, bad = grant_fence(p.token, a.fence_ttl, a.fence)
  if bad then return bad end
  redis.call('HSET', p.name, a.owner, 1)
  redis.call('PEXPIRE', p.name, a.ttl)
  return {1, fence, a.ttl}
end

-- plain_handed returns the answer to a hand-over that was done before and whose reply was lost, or to one to an owner
-- that has the name already. It lasts for ttl then, at least: what is told counts on it. If its fence was overwritten
-- since, the outcome stays unknown.
local function plain_handed(p, ttl, fence_ttl)
  redis.call('PEXPIRE', p.name, math.max(redis.call('PTTL', p.name), tonumber(ttl)))
  local fence = last_fence(p.token)
  if not fence then return redis.error_reply('LOCKDUNSURE the fence of the hand-over was overwritten') end
  if fence == 0 then
    fence = next_fence(0)
    keep_fence(p.token, fence, fence_ttl)
  end
  return {2, fence}
end

-- plain_pass gives the name from its owner, who has a fence, to another. last is the last fence, least is as in
-- next_fence.
local function plain_pass(p, owner, fence, last, successor, ttl, fence_ttl, least)
  fence = next_fence(math.max(last, tonumber(fence)), least)
  redis.call('HDEL', p.name, owner) -- allowed when memory is full, and opens the way for the others
  redis.call('HSET', p.name, successor, 1)
  redis.call('PEXPIRE', p.name, ttl)
  keep_fence(p.token, fence, fence_ttl)
  return {2, fence}
end
