-- shape.lua: how to tell by its shape whether something at a key is of a lock. It is put in front of scripts, before
-- fence.lua, and is no script by itself.
--
-- Other programs may use the same Redis, and names are keys. So a script writes to no key, and tells nothing of its
-- content, unless the content is shaped as that of lockd and Redisson. Of a large key only the beginning, or two
-- fields, are looked at.

-- other_kind is the error for a key that is in use for something else. It says that nothing was changed.
local function other_kind(what) return redis.error_reply('LOCKDKIND ' .. what) end

-- is_owner says whether a text can be an owner: it begins with a UUID and a colon, as Redisson's do.
local function is_owner(text)
  return string.find(text, '^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x:') ~= nil
end

-- is_number says whether a text is a whole number that is not negative.
local function is_number(text) return string.find(text, '^%d+$') ~= nil end

-- lock_misfit returns an error reply if a name is no hash of a lock: owner -> hold count, and mode -> read or write.
local function lock_misfit(name)
  local list = redis.pcall('HRANDFIELD', name, 2, 'WITHVALUES')
  if list.err then return other_kind('the name is no hash') end
  for i = 1, #list, 2 do
    local field, value = list[i], list[i + 1]
    if field == 'mode' then
      if value ~= 'read' and value ~= 'write' then return other_kind('the name is a hash, but no lock') end
    elseif not (is_owner(field) and is_number(value)) then
      return other_kind('the name is a hash, but no lock')
    end
  end
end

-- owner_misfit returns an error reply if one, the reply of a command that reads one element of a key, is an error or no
-- owner. An absent element is no misfit.
local function owner_misfit(one, what)
  if type(one) == 'table' then one = one.err and '' or one[1] end
  if one and not is_owner(one) then return other_kind('the ' .. what .. ' of the name is something else') end
end

-- permits_misfit returns an error reply if a key is no sorted set of permits, whose ids have 16 bytes; and when the
-- first permit ends, nil if there is none.
local function permits_misfit(key)
  local first = redis.pcall('ZRANGE', key, 0, 0, 'WITHSCORES')
  if first.err or first[1] and #first[1] ~= 16 then
    return other_kind('what permits of the name are out is something else'), false
  end
  return nil, first[2] and tonumber(first[2])
end

-- A number alone may be another program's. It is a semaphore's while permits are out, or while there is a last fence:
-- lockd keeps one for each semaphore that it made or used.
--
-- A limit that nobody uses lives for this many ms after its last permit has ended.
local LIMIT_LIVES = 600000

-- permits_last returns how many ms the last of the permits that are out lasts, 0 if none is.
local function permits_last(key, now)
  local last = redis.call('ZRANGE', key, -1, -1, 'WITHSCORES')[2]
  return last and math.max(0, tonumber(last) - now) or 0
end

-- is_permits says whether a text can be the number of available permits. Redis counts on from no other, as from 007.
local function is_permits(text)
  return #text <= 11 and (text == '0' or string.find(text, '^%-?[1-9]%d*$') ~= nil)
end

-- on_its_way is the error for a hold whose key may be at another node. It says that nothing was done.
--
-- A call does not name the keys of single holds, nor that of permits when it renews them, so Redis does not check
-- whether they are here. While a slot of a cluster moves, its keys are at two nodes. The old node then refuses a key
-- that it has not got, and the new node treats it as absent.
local function on_its_way() return redis.error_reply('TRYAGAIN a hold of the name is on its way to another node') end

-- number_misfit returns an error reply if a key holds anything but a whole number, or may be at another node.
local function number_misfit(key, what)
  local text = redis.pcall('GET', key)
  local bad = type(text) == 'table' and text.err
  if bad and not string.find(bad, 'WRONGTYPE', 1, true) then return on_its_way() end
  if bad or text and not is_number(text) then return other_kind('the ' .. what .. ' of the name is something else') end
end
