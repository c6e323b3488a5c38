-- plain.lua: holds of an exclusive or fair lock: a hash with one field, owner -> 1. It is put in front of scripts, after
-- fence.lua, and is no script by itself. take.lua and free.lua have the same rules in fewer commands.
--
-- p has the keys: name, token. a is a claim: owner, and fence as text, the least that it is to have; ttl and fence_ttl in ms.
-- r is a release: owner; its fence as text, '0' for any; successor, '' for none, and least, its least fence, as texts; the
-- successor's ttl and fence_ttl in ms.

-- plain_misfit returns an error reply if something else is at the keys.
local function plain_misfit(p)
  local _, bad = last_fence(p.token)
  return bad or lock_misfit(p.name)
end

-- plain_hold says whether an owner alone holds the name, and how many fields the hash has.
local function plain_hold(name, owner)
  local fields = redis.call('HLEN', name)
  return fields == 1 and redis.call('HEXISTS', name, owner) == 1, fields
end

-- plain_check returns nil and whether the owner holds the name, if it holds it or may take it; else the answer that
-- refuses it.
local function plain_check(p, a)
  local mine, fields = plain_hold(p.name, a.owner)
  if mine or fields == 0 then return nil, mine end
  -- More than one field is a read-write lock; with one holder the other field is its mode.
  local hint = ''
  if fields <= 2 then
    for _, field in ipairs(redis.call('HKEYS', p.name)) do
      if field ~= 'mode' then hint = string.match(field, '^(.*):write$') or field end
    end
  end
  return {0, redis.call('PTTL', p.name), hint}
end

-- plain_take gives the owner the name, or prolongs its hold, after plain_check allowed it.
local function plain_take(p, a, mine)
  if not mine then
    local fence, bad = grant_fence(p.token, a.fence_ttl, a.fence)
    if bad then return bad end
    redis.call('HSET', p.name, a.owner, 1)
    redis.call('PEXPIRE', p.name, a.ttl)
    return {1, fence, a.ttl}
  end
  local fence, bad = last_fence(p.token)
  if bad then return bad end
  local left = extend(p.name, a.ttl) -- first, as it is allowed when memory is full
  return {1, again_fence(p.token, fence, a.fence_ttl, a.fence), left}
end

-- plain_over returns nil and the hold's fence as text, false if that is not known, if the release ends a hold; else the
-- answer to the release.
local function plain_over(p, r)
  if plain_hold(p.name, r.owner) then
    local text = redis.pcall('GET', p.token)
    if type(text) == 'table' then text = false end
    -- Without a fence key the owner alone decides, because the fence is not known.
    if text and r.fence ~= '0' and text ~= r.fence then return {-2} end
    return nil, text
  end
  if r.successor == '' or not plain_hold(p.name, r.successor) then return {-1} end
  -- An earlier run handed it over and its reply was lost, or the successor has it for another reason. It must last for
  -- its TTL at least, as the caller will tell. If its fence was overwritten since, the outcome stays unknown.
  extend(p.name, tonumber(r.ttl))
  local fence = last_fence(p.token)
  if not fence then return redis.error_reply('LOCKDUNSURE the fence of the handoff was overwritten') end
  return {2, again_fence(p.token, fence, r.fence_ttl)}
end

-- plain_pass hands the name from its owner to the successor. last is the last fence, text that of the owner, or false.
local function plain_pass(p, r, last, text)
  local fence = next_fence(math.max(last, tonumber(r.fence)), r.least)
  redis.call('HDEL', p.name, r.owner) -- allowed when memory is full, and opens the way for the others
  redis.call('HSET', p.name, r.successor, 1)
  redis.call('PEXPIRE', p.name, r.ttl)
  keep_fence(p.token, fence, r.fence_ttl)
  news(p.name, 'handed', text or r.fence, 0)
  return {2, fence}
end
