-- permits.lua: acquisition and release of permits in all cases. It is put in front of scripts, after semaphore.lua and
-- news.lua, and is no script by itself.

-- sem_acquire makes a claim, as in semaphore.lua, and returns what acquire_all.lua does. full is the error of a full
-- Redis, if it is known to be full.
local function sem_acquire(s, a, full)
  local bad = sem_misfit(s)
  if bad then return bad end
  local refusal, state = sem_check(s, a)
  if refusal then return refusal end
  if full and #state.missing > 0 then return full end
  return sem_take(s, a, state)
end

-- sem_release releases permits, and returns what release_semaphore.lua does. b has: owner; permits, how many it has, 0
-- if that is not known; fence, as text; keeps, how many it keeps. What it writes first is allowed when memory is full.
local function sem_release(s, b)
  local available, bad = sem_number(s)
  if bad then return bad end
  if not available then redis.call('UNLINK', s.out) end -- permits of one that is forgotten
  if not available or not s.any then return {-1} end
  local now = now_ms()
  local purged = sem_purge(s, now)
  local kept = b.keeps > 0 and #sem_own(s, b.owner, b.keeps, now) or 0
  local given = sem_own(s, b.owner, b.permits, now, b.keeps)
  if #given == 0 then
    if purged then sem_tell(s, purged) end
    if kept == 0 then return {-1} end
    return {1, 0, kept}
  end
  available = redis.call('INCRBY', s.name, sem_drop(s, given))
  if b.keeps > 0 then return {1, sem_tell(s, available), kept} end -- the hold goes on
  return {1, sem_tell(s, available, 'released', b.fence, 'permit ' .. permit_stem(b.owner)), 0}
end
