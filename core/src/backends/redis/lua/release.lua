-- Gives a lease back, so that a backup can take over at once.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  slot (ms)
-- ARGV[2]  token
-- ARGV[3]  the channel that is told, or empty
-- ARGV[4]  the job's name
-- Answers  1, also when repeated, or 0 if the run is not the caller's any more

local run = held(tonumber(ARGV[1]), ARGV[2])
if not run or not is_unfinished(run) then return 0 end
if not run.released then
  run.lease_until = now
  run.released = true
  put(run)
  commit()
end
wake(ARGV[3], 'released', ARGV[4])
return 1
