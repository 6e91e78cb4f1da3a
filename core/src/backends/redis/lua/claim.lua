-- Claims the scheduled run of a slot, with a lease.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  slot (ms)
-- ARGV[2]  token
-- ARGV[3]  instance id
-- ARGV[4]  history size
-- ARGV[5]  history TTL (ms), or empty
-- ARGV[6]  lease (ms)
-- ARGV[7]  overlap: `allow` or `skip`
-- ARGV[8]  how far the caller's clock may run ahead (ms), or empty
-- ARGV[9]  kind: `slot`, `backup` or `catch_up`
-- ARGV[10] max takeovers
-- ARGV[11] the last instant at which it may still be started (ms), or empty
-- Answers  an outcome

local slot, token, by = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local lease_ms, overlap, max_early = tonumber(ARGV[6]), ARGV[7], optional(ARGV[8])
local kind, max_takeovers, not_after = ARGV[9], tonumber(ARGV[10]), optional(ARGV[11])
local key = key_of(slot, false)

local function claim_recorded(run)
  -- 1. It has ended (a claim without a lease counts as ended: nobody may start it again).
  if not is_unfinished(run) then return { kind = 'done' } end
  -- 2. It is the caller's own. A released lease is spent: ask with a new token.
  if run.token == token then
    if run.released then return running(run) end
    renew(run, lease_ms)
    return won(run)
  end
  -- 3. Somebody holds it.
  if is_alive(run) then return running(run) end
  -- 4. Take it over. (One that nobody may take over has been settled as lost.)
  run.crashes = run.crashes + (run.released and 0 or 1)
  run.attempt = run.attempt + 1
  run.fence = next_fence()
  run.token, run.by, run.at = token, by, now
  run.released = false
  run.lease_until, run.lease_ms = now + lease_ms, lease_ms
  put(run)
  return won(run)
end

local function claim_unrecorded()
  -- 5. Its record may have been trimmed.
  if slot <= number_in('floor') then return { kind = 'late' } end
  -- 6. A backup takes over, it never starts.
  if kind == 'backup' then return { kind = 'none' } end
  -- 7. Before this definition existed nothing was missed.
  if kind == 'catch_up' and slot < number_in('since') then return { kind = 'none' } end
  -- 8. Too late, by the store's clock alone.
  if kind == 'slot' and not_after and now > not_after then return { kind = 'late' } end
  -- 8a. Paused: what has begun goes on, nothing begins.
  if head.pausedSince then return { kind = 'paused' } end
  -- 9. The caller's clock runs ahead.
  if max_early and slot > now + max_early then return { kind = 'early' } end
  -- 10. Another run is in the way. A slot is not judged before its time.
  local way = overlap == 'skip' and in_the_way()
  if way then
    if slot > now then return { kind = 'early' } end
    if kind == 'slot' then
      local run = new_run(slot, false, token, by)
      run.attempt = 0
      end_run(run, 'skipped')
    end
    return way
  end
  -- 11. Start it.
  local run = new_run(slot, false, token, by)
  first_grant(run, lease_ms, max_takeovers)
  return won(run)
end

settle()
remember_history_limits(tonumber(ARGV[4]), optional(ARGV[5]))
local run = find_run(key)
local outcome = run and claim_recorded(run) or claim_unrecorded()
local answer = reply(outcome, key)
commit()
return answer
