-- Moves the end of a lease forward, for its holder.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  slot (ms)
-- ARGV[2]  token
-- ARGV[3]  lease (ms)
-- Answers  1, or 0 if the run is not the caller's any more

local run = held(tonumber(ARGV[1]), ARGV[2])
if not run or not is_unfinished(run) or run.released then return 0 end
renew(run, tonumber(ARGV[3]))
commit()
return 1
