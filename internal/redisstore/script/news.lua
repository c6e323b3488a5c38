-- news.lua: what lockd tells about a name on a channel of its own, beside Redisson's. It is put in front of scripts and is no
-- script by itself.
--
-- A message is four words: what happened, a number, 1 or 0, and who is meant, or nothing.
--   released, handed, forced  A hold ended. The number is its fence, 0 if not known. 1 says that a message on Redisson's
--                             channel went directly before and means the same. Who is meant: the fair waiter whose turn it is, or,
--                             of a semaphore, 'permit ' and the hold that ended, see permit_stem.
--   nothing                   No hold ended, although a message on Redisson's channel went directly before. Number 0, 1.
--   turn                      A fair waiter is the next one. The number is after how many ms the name will be free at the
--                             latest, 0 if it may be taken now. 0.

-- news sends such a message and returns how many heard it. number is a text.
local function news(name, what, number, told, who)
  local message = what .. ' ' .. number .. ' ' .. told .. ' ' .. (who or '')
  local channel = string.find(name, '{', 1, true) and 'lockd_lock_news::' .. name or 'lockd_lock_news:{' .. name .. '}'
  return redis.call('PUBLISH', channel, message)
end

-- tell sends a message on Redisson's channel and, if anybody heard it, the news that say what it means: watchers hear
-- both. It returns how many heard Redisson's message.
local function tell(name, channel, message, what, number, who)
  local heard = redis.call('PUBLISH', channel, message)
  if heard > 0 then news(name, what, number, 1, who) end
  return heard
end
