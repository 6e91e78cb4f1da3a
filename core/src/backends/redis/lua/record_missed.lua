-- Keeps a missed range, once for the fleet.
--
-- KEYS     job, records, order, bodies, missed
-- ARGV[1]  the first missed slot (ms)
-- ARGV[2]  the last missed slot (ms)
-- ARGV[3]  how many slots
-- ARGV[4]  reason
-- ARGV[5]  instance id
-- Answers  1, or 0 if it was known already

local is_new = record_missed(tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3], ARGV[4], ARGV[5])
commit()
return is_new and 1 or 0
