-- Stores the result of a claim without a lease.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  slot (ms)
-- ARGV[2]  1 for a manual run, else 0
-- ARGV[3]  instance id
-- ARGV[4]  status
-- ARGV[5]  when it was started (ms)
-- ARGV[6]  attempt
-- ARGV[7]  the result as JSON
-- ARGV[8]  history size
-- ARGV[9]  history TTL (ms), or empty
-- Answers  1, or 0 for a run under a lease: that is ended by its holder's token alone

local slot, manual, status = tonumber(ARGV[1]), ARGV[2] == '1', ARGV[4]

set_number('historySize', tonumber(ARGV[8]))
set_optional('historyTtlMs', optional(ARGV[9]))
local run = find_run(key_of(slot, manual))
if run and is_unfinished(run) then
  commit()
  return 0
end
if not run then
  -- Its claim is not here: it was made on another store, or has been trimmed.
  run = new_run(slot, manual, '', ARGV[3])
  run.at = tonumber(ARGV[5])
  run.attempt = tonumber(ARGV[6])
end
if not run.status then
  run.status = status
  run.ended_at = now
end
bodies[run.key] = ARGV[7]
put(run)
commit()
return 1
