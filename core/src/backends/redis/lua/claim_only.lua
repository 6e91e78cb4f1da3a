-- Claims the scheduled run of a slot on a store used without leases.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  slot (ms)
-- ARGV[2]  token
-- ARGV[3]  instance id
-- ARGV[4]  history size
-- ARGV[5]  history TTL (ms), or empty
-- ARGV[6]  how far the caller's clock may run ahead (ms), or empty
-- Answers  1 for the one winner and its repeats, else 0

local slot, token, max_early = tonumber(ARGV[1]), ARGV[2], optional(ARGV[6])

remember_history_limits(tonumber(ARGV[4]), optional(ARGV[5]))
local run = find_run(key_of(slot, false))
local is_won = run ~= nil and run.token == token
if not run and slot > number_in('floor') and not (max_early and slot > now + max_early) then
  put(new_run(slot, false, token, ARGV[3]))
  is_won = true
end
commit()
return is_won and 1 or 0
