-- Registers a job: what the fleet agrees upon about it.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  the fingerprint of the schedule: `-` for none, else the text behind a `+`
-- ARGV[2]  the version of the time-zone tables: `-` for none, else the text behind a `+`
-- ARGV[3]  history size
-- ARGV[4]  history TTL (ms), or empty
-- ARGV[5]  keepMs
-- ARGV[6]  keepSlots
-- ARGV[7]  keepWindowMs
-- Answers  1

-- The one instant in the fingerprint of an `at` schedule.
local function at_slot(schedule)
  return tonumber(string.match(schedule, '^at ([+-]?%d+)$'))
end

-- No fingerprint creates the job if need be and otherwise has no opinion about its definition.
local function register_schedule(schedule)
  local stored = head.schedule or ''
  if number_in('since') == 0 then
    set_text('schedule', schedule or '')
    set_number('since', now)
    return
  end
  -- An old replica that restarts in a rolling deploy brings the previous definition back for a
  -- moment: that must not restart the horizon.
  if not schedule or schedule == stored or schedule == (head.schedulePrev or '') then return end
  -- Of two replicas that disagree about the one instant of an `at` job the first one wins, until
  -- that instant has passed.
  local at = at_slot(stored)
  if at and at_slot(schedule) and at + number_in('keepMs') > now then return end
  set_text('schedulePrev', stored)
  set_text('schedule', schedule)
  set_number('since', now)
end

register_schedule(optional_text(ARGV[1]))
local tables = optional_text(ARGV[2])
if tables then set_text('zoneTables', tables) end
set_number('historySize', tonumber(ARGV[3]))
set_optional('historyTtlMs', optional(ARGV[4]))
-- What must be left is what any replica may still ask for: the greatest that was seen.
set_number('keepMs', math.max(number_in('keepMs'), tonumber(ARGV[5])))
set_number('keepSlots', math.max(number_in('keepSlots'), tonumber(ARGV[6])))
set_number('keepWindowMs', math.max(number_in('keepWindowMs'), tonumber(ARGV[7])))
commit()
return 1
