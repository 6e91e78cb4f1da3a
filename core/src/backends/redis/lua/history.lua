-- Reads the latest runs with what they left behind. Changes nothing.
--
-- KEYS     job, records, order, bodies
-- ARGV[1]  how many at most
-- Answers  now, then three items for each run in no order: key, the run as it is stored, its body
--          or nothing

local answer = { now }
local function add(key, line, body)
  answer[#answer + 1] = key
  answer[#answer + 1] = line
  answer[#answer + 1] = body
end
for _, run in ipairs(open) do
  add(run.key, write_run(run), false)
end
for _, key in ipairs(redis.call('ZREVRANGE', KEYS[3], 0, tonumber(ARGV[1]) - 1)) do
  add(key, redis.call('HGET', KEYS[2], key), redis.call('HGET', KEYS[4], key))
end
return answer
