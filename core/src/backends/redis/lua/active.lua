-- Lists the unfinished runs, oldest slot first. Changes nothing.
--
-- KEYS     job
-- ARGV     none
-- Answers  the runs that are not lost

local runs = {}
for _, run in ipairs(open) do
  if not is_lost(run) then runs[#runs + 1] = shown(run) end
end
return runs
