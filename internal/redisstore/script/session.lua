-- session.lua: the record of a session, a hash with a TTL. It is put in front of scripts, and is no script by itself.
-- KEYS[1] lockd:session:{<id>}
-- ARGV[1] epoch   ARGV[2] nonce of the attempt   ARGV[3] hash of the token   ARGV[4] client   ARGV[5] replica
-- ARGV[6] TTL in ms
-- When a record was ended, a mark with its epoch is left for a while, which counts as no record. The field ended of the
-- mark is 1, or force if the record was ended by force.
-- The scripts return {1}; or {-1} if there is no record, {-2} if another attempt has the session, {-6} if it has another token.

-- session_had returns the record, or nil and perhaps an error reply.
local function session_had()
  local had = redis.pcall('HMGET', KEYS[1], 'epoch', 'nonce', 'token', 'ended')
  if had.err then return nil, redis.error_reply('LOCKDKIND the key of a session is no hash') end
  if not had[1] and redis.call('EXISTS', KEYS[1]) == 0 then return nil end
  local epoch = tonumber(had[1] or '')
  if not epoch then return nil, redis.error_reply('LOCKDKIND the key of a session is no record') end
  return {epoch = epoch, epoch_text = had[1], nonce = had[2], token = had[3], ended = had[4]}
end

-- session_elsewhere says whether another attempt has the session.
local function session_elsewhere(had)
  local epoch = tonumber(ARGV[1])
  return had.epoch > epoch or had.epoch == epoch and had.nonce ~= ARGV[2]
end

-- session_write makes the record that of the attempt. When memory is full the first write fails.
local function session_write()
  local left = redis.call('PTTL', KEYS[1])
  redis.call('HSET', KEYS[1], 'epoch', ARGV[1], 'nonce', ARGV[2], 'token', ARGV[3], 'client', ARGV[4], 'replica', ARGV[5])
  redis.call('PEXPIRE', KEYS[1], math.max(left, tonumber(ARGV[6])))
  return {1}
end
