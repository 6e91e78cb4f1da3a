-- Starts a run that a person asks for.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  slot (ms)
-- ARGV[2]  token
-- ARGV[3]  instance id
-- ARGV[4]  history size
-- ARGV[5]  history TTL (ms), or empty
-- ARGV[6]  lease (ms)
-- ARGV[7]  1 if the run is to be under a lease, else 0
-- ARGV[8]  1 if another unfinished run is in the way, else 0
-- ARGV[9]  when it was asked for (ms)
-- Answers  an outcome

local slot, token, by = tonumber(ARGV[1]), ARGV[2], ARGV[3]
local lease_ms, asked_at = tonumber(ARGV[6]), tonumber(ARGV[9])

local function find_by_token()
  for _, run in ipairs(open) do
    if run.manual and run.token == token then return run end
  end
  local key = redis.call('HGET', KEYS[2], 'token:' .. token)
  if key then return find_run(key) end
end

-- The same request again: the same slot, and the lease is renewed. If that run has ended or was
-- given back, the answer says so and the caller starts nothing.
local function repeat_manual(run)
  if run.lease_ms == 0 and not run.status then return won(run) end
  if not is_unfinished(run) then return { kind = 'done' } end
  if run.released then return running(run) end
  renew(run, lease_ms)
  return won(run)
end

-- The answer, and the run if one was started.
local function start_manual()
  -- A duplicate that arrives after its record was trimmed must not become a ghost.
  local keep_ms = number_in('keepMs')
  if keep_ms > 0 and asked_at + keep_ms <= now then return { kind = 'late' } end
  local way = ARGV[8] == '1' and in_the_way()
  if way then return way end
  while find_run(key_of(slot, true)) do slot = slot + 1 end
  local run = new_run(slot, true, token, by)
  if ARGV[7] == '1' then first_grant(run, lease_ms, 0) else put(run) end
  return won(run), run
end

settle()
remember_history_limits(tonumber(ARGV[4]), optional(ARGV[5]))
local outcome
local run = find_by_token()
if run then outcome = repeat_manual(run) else outcome, run = start_manual() end
if run then outcome.slot = run.slot end
local answer = reply(outcome, run and run.key)
commit()
return answer
