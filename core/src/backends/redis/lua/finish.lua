-- Ends the run of its holder.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  slot (ms)
-- ARGV[2]  token
-- ARGV[3]  status
-- ARGV[4]  the result as JSON: `-` for none, else the text behind a `+`
-- ARGV[5]  the channel that is told, or empty
-- ARGV[6]  the job's name
-- Answers  1, also when repeated, or 0 if the run is not the caller's any more

local status = ARGV[3]
local run = held(tonumber(ARGV[1]), ARGV[2])
if not run then return 0 end
if not is_unfinished(run) then
  if run.status ~= status then return 0 end
else
  end_run(run, status, optional_text(ARGV[4]))
  commit()
end
wake(ARGV[5], 'finished', ARGV[6])
return 1
