-- rights.lua: which of some commands the user of this connection may not run. It runs none of them.
-- ARGV     commands, each as words, one in a line
-- Returns a list of the commands that are refused, each by its name and its key; {'?'} if this server does not tell.
-- Safe to run twice.
if not redis.acl_check_cmd then
  return {'?'}
end
local refused = {}
for _, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '[^\n]+') do
    words[#words + 1] = word
  end
  local known, allowed = pcall(redis.acl_check_cmd, unpack(words))
  if known and not allowed then
    refused[#refused + 1] = words[2] and words[1] .. ' ' .. words[2] or words[1]
  end
end
return refused
