-- The rules of leases that several calls share. Part of every script.
--
-- They say the same as the Rust module `lease::rules`, and a test holds the two equal on random
-- histories: whoever changes one changes the other. The numbers are those of the documentation.

local function is_alive(run)
  return is_unfinished(run) and not run.released and run.lease_until > now
end

local function left_ms(run)
  return is_alive(run) and run.lease_until - now or 0
end

-- Nobody may take it over and its lease is over: it is lost, written down or not.
local function is_lost(run)
  if not is_unfinished(run) or is_alive(run) then return false end
  local crashes = run.crashes + (run.released and 0 or 1)
  return run.manual or crashes > run.max_takeovers
end

-- A lease that ends later than it can is cut (the clock was set back), and a run that nobody may
-- take over and whose lease is over is lost. The policy is the one stored in the run.
local function settle()
  for _, run in ipairs(unfinished()) do
    if run.lease_until > now + run.lease_ms then
      run.lease_until = now + run.lease_ms
      put(run)
    end
    if is_lost(run) then
      run.status = 'lost'
      run.ended_at = run.lease_until
      put(run)
    end
  end
end

local function new_run(slot, manual, token, by)
  return {
    key = key_of(slot, manual), slot = slot, manual = manual, token = token, by = by, at = now,
    attempt = 1, fence = 0, crashes = 0, lease_until = 0, lease_ms = 0, max_takeovers = 0,
    released = false,
  }
end

local function next_fence()
  set_number('fence', number_in('fence') + 1)
  return number_in('fence')
end

-- A run that begins under a lease.
local function first_grant(run, lease_ms, max_takeovers)
  run.fence = next_fence()
  run.lease_until = now + lease_ms
  run.lease_ms = lease_ms
  run.max_takeovers = max_takeovers
  open[#open + 1] = run
  put(run)
end

-- The caller's own lease asked for once more: moved forward, never back.
local function renew(run, lease_ms)
  run.lease_until = math.max(run.lease_until, now + lease_ms)
  run.lease_ms = lease_ms
  put(run)
end

local function end_run(run, status, body)
  run.status = status
  run.ended_at = now
  if body then bodies[run.key] = body end
  put(run)
end

-- A claim on a job that was never registered still says how much history to keep.
local function remember_history_limits(size, ttl)
  if number_in('since') == 0 then
    set_number('historySize', size)
    set_optional('historyTtlMs', ttl)
  end
end

-- The run of this slot that the token holds, scheduled or manual.
local function held(slot, token)
  local run = find_run(key_of(slot, false))
  if run and run.token == token then return run end
  run = find_run(key_of(slot, true))
  if run and run.token == token then return run end
end

-- The oldest unfinished run of the job, as the answer `overlap`.
local function in_the_way()
  local run = unfinished()[1]
  if run then
    return { kind = 'overlap', slot = run.slot, manual = run.manual, by = run.by,
      left_ms = left_ms(run) }
  end
end

local function won(run)
  return { kind = 'won', attempt = run.attempt, fence = run.fence,
    max_takeovers = run.max_takeovers }
end

local function running(run)
  return { kind = 'running', by = run.by, left_ms = left_ms(run), attempt = run.attempt }
end

-- An outcome as it is sent: kind, attempt, fence, maxTakeovers, slot, manual, by, leftMs, nowMs,
-- nextMs; nothing where it does not apply. `about` is the key of the run asked for.
local function reply(outcome, about)
  local next_ms
  for _, run in ipairs(unfinished()) do
    if run.key ~= about then next_ms = math.min(next_ms or math.huge, left_ms(run)) end
  end
  local manual = outcome.manual
  if manual ~= nil then manual = manual and 1 or 0 end
  -- `false` travels as nothing; a nil would end the list.
  return { outcome.kind, outcome.attempt or false, outcome.fence or false,
    outcome.max_takeovers or false, outcome.slot or false, manual or false, outcome.by or false,
    outcome.left_ms or false, now, next_ms or false }
end

-- An unfinished run as it is sent: slot, manual, by, attempt, leftMs, alive.
local function shown(run)
  return { run.slot, run.manual and 1 or 0, run.by, run.attempt, left_ms(run),
    is_alive(run) and 1 or 0 }
end

-- Keeps a missed range, once: false if it lies within one that is known.
local function record_missed(from, to, count, reason, by)
  for _, line in ipairs(redis.call('LRANGE', KEYS[5], 0, -1)) do
    local known_from, known_to = string.match(line, '^(%-?%d+) (%-?%d+) ')
    if tonumber(known_from) <= from and to <= tonumber(known_to) then return false end
  end
  local line = int(from) .. ' ' .. int(to) .. ' ' .. count .. ' ' .. int(now) .. ' ' .. #reason
    .. ' ' .. reason .. ' ' .. by
  redis.call('RPUSH', KEYS[5], line)
  redis.call('LTRIM', KEYS[5], -MISSED_KEPT, -1)
  is_changed = true
  return true
end

-- Tells whoever waits for a run of the job. A server that does not allow it loses only time.
local function wake(channel, word, job)
  if channel ~= '' then redis.pcall('PUBLISH', channel, word .. ' ' .. job) end
end
