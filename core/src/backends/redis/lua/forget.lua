-- Drops the ended records and the definition. What a fleet that goes on may still ask for does not
-- change with it: the floor, the fence and the limits of trimming stay.
--
-- KEYS     job, records, order, bodies, missed
-- ARGV     none
-- Answers  1, or 0 while a run is unfinished

settle()
if #unfinished() > 0 then
  commit()
  return 0
end
local floor = number_in('floor')
for _, run in ipairs(open) do
  if not run.manual then floor = math.max(floor, run.slot) end
end
for _, key in ipairs(redis.call('ZREVRANGE', KEYS[3], 0, -1)) do
  if string.sub(key, -1) ~= 'm' then
    floor = math.max(floor, tonumber(key))
    break
  end
end
set_number('floor', floor)
local kept = {}
for _, field in ipairs({ 'floor', 'fence', 'keepMs', 'keepSlots', 'keepWindowMs' }) do
  if head[field] then
    kept[#kept + 1] = field
    kept[#kept + 1] = head[field]
  end
end
redis.call('DEL', unpack(KEYS))
if #kept > 0 then redis.call('HSET', KEYS[1], unpack(kept)) end
return 1
