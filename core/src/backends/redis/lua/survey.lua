-- Settles, and shows what a sweep or a start needs.
--
-- KEYS     job, records, order, bodies, missed
-- ARGV     none
-- Answers  now, schedule, since, floor, zoneTables, paused (since, by, reason; or nothing), the
--          keys of the records, the unfinished runs, the slots of scheduled runs that are not among
--          the records yet, the missed ranges

settle()
local runs, slots = {}, {}
for _, run in ipairs(open) do
  if not run.manual then slots[#slots + 1] = run.slot end
  if is_unfinished(run) then runs[#runs + 1] = shown(run) end
end
local paused = false
if head.pausedSince then
  paused = { number_in('pausedSince'), head.pausedBy or '', head.pausedReason or false }
end
local answer = { now, head.schedule or '', number_in('since'), number_in('floor'),
  head.zoneTables or '', paused, redis.call('ZRANGE', KEYS[3], 0, -1), runs, slots,
  redis.call('LRANGE', KEYS[5], 0, -1) }
commit()
return answer
