-- Ends an unfinished run, whoever holds it.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  slot (ms)
-- ARGV[2]  1 for a manual run, else 0
-- Answers  1, or 0 if there is no such run or it has ended

local run = find_run(key_of(tonumber(ARGV[1]), ARGV[2] == '1'))
if not run or not is_unfinished(run) then return 0 end
end_run(run, 'cancelled')
commit()
return 1
