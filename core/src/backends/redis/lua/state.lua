-- How the state of a job is read and written. Part of every script.
--
-- KEYS[1]  job      hash: the header, one field each, and the unfinished runs (`run:<key>`)
-- KEYS[2]  records  hash: every other run by its key, and `token:<token>` = key for manual ones
-- KEYS[3]  order    sorted set: the keys of the records, by slot
-- KEYS[4]  bodies   hash: what a run left behind (error, output) as JSON, by its key
-- KEYS[5]  missed   list: the newest reported ranges, oldest first
--
-- The key of a run is its slot, with an `m` behind it for a manual run: for equal slots the manual
-- run comes second in a sorted set as well. A run is one line of text:
--
--   at attempt fence crashes leaseUntil leaseMs maxTakeovers released status endedAt length token by
--
-- `-` stands for no status and no end; `length` is that of the token. All numbers are whole and
-- below 2^53, so that the numbers of Lua hold them exactly.

local MISSED_KEPT = 20

local RUN = '^(%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) (%-?%d+) ([01]) (%S+) (%S+) '
  .. '(%d+) (.*)$'

-- Lua writes great numbers as 1e+15 by itself.
local function int(number)
  return string.format('%d', number)
end

-- An optional number in ARGV: empty for none.
local function optional(text)
  if text ~= '' then return tonumber(text) end
end

-- An optional text in ARGV: `-` for none, else the text behind a `+`.
local function optional_text(text)
  if text ~= '-' then return string.sub(text, 2) end
end

local function key_of(slot, manual)
  return manual and int(slot) .. 'm' or int(slot)
end

local function parse_run(key, line)
  local at, attempt, fence, crashes, lease_until, lease_ms, max_takeovers, released, status, ended,
    length, rest = string.match(line, RUN)
  local slot, manual = string.match(key, '^(%-?%d+)(m?)$')
  length = tonumber(length)
  return {
    key = key,
    slot = tonumber(slot),
    manual = manual == 'm',
    at = tonumber(at),
    attempt = tonumber(attempt),
    fence = tonumber(fence),
    crashes = tonumber(crashes),
    lease_until = tonumber(lease_until),
    lease_ms = tonumber(lease_ms),
    max_takeovers = tonumber(max_takeovers),
    released = released == '1',
    status = status ~= '-' and status or nil,
    ended_at = tonumber(ended),
    token = string.sub(rest, 1, length),
    by = string.sub(rest, length + 2),
  }
end

local function write_run(run)
  local numbers = string.format(
    '%d %d %d %d %d %d %d %d %s %s %d ', run.at, run.attempt, run.fence, run.crashes,
    run.lease_until, run.lease_ms, run.max_takeovers, run.released and 1 or 0, run.status or '-',
    run.ended_at and int(run.ended_at) or '-', #run.token
  )
  return numbers .. run.token .. ' ' .. run.by
end

local function is_before(a, b)
  if a.slot ~= b.slot then return a.slot < b.slot end
  return b.manual and not a.manual
end

-- What is stored: the header as text by field, the unfinished runs oldest slot first.
local head, open = {}, {}

local stored = redis.call('HGETALL', KEYS[1])
for i = 1, #stored, 2 do
  local field = stored[i]
  if string.sub(field, 1, 4) == 'run:' then
    local run = parse_run(string.sub(field, 5), stored[i + 1])
    run.is_open = true
    open[#open + 1] = run
  else
    head[field] = stored[i + 1]
  end
end
if #open > 1 then table.sort(open, is_before) end

-- What the call changes: fields of the header, runs, bodies.
local changed_fields, changed_runs, bodies, is_changed = {}, {}, {}, false

local function number_in(field)
  return tonumber(head[field] or 0)
end

local function set_field(field, text)
  if head[field] == text then return end
  head[field] = text
  changed_fields[field] = true
  is_changed = true
end

local function set_number(field, number)
  if number_in(field) ~= number then set_field(field, int(number)) end
end

local function set_text(field, text)
  if (head[field] or '') ~= text then set_field(field, text) end
end

local function set_optional(field, number)
  set_field(field, number and int(number) or nil)
end

local function find_run(key)
  for _, run in ipairs(open) do
    if run.key == key then return run end
  end
  local line = redis.call('HGET', KEYS[2], key)
  if line then return parse_run(key, line) end
end

-- Notes that a run has changed, or that it is new.
local function put(run)
  if not run.is_touched then
    run.is_touched = true
    changed_runs[#changed_runs + 1] = run
  end
  is_changed = true
end

local function is_unfinished(run)
  return run.status == nil and run.lease_ms > 0
end

-- The runs under a lease as they stand after what has been decided so far, oldest slot first.
local function unfinished()
  local runs = {}
  for _, run in ipairs(open) do
    if is_unfinished(run) then runs[#runs + 1] = run end
  end
  return runs
end

local function write_runs()
  for _, run in ipairs(changed_runs) do
    local line = write_run(run)
    if is_unfinished(run) then
      redis.call('HSET', KEYS[1], 'run:' .. run.key, line)
    else
      if run.is_open then redis.call('HDEL', KEYS[1], 'run:' .. run.key) end
      redis.call('HSET', KEYS[2], run.key, line)
      redis.call('ZADD', KEYS[3], int(run.slot), run.key)
      if run.manual and run.token ~= '' then
        redis.call('HSET', KEYS[2], 'token:' .. run.token, run.key)
      end
    end
  end
  for key, body in pairs(bodies) do
    redis.call('HSET', KEYS[4], key, body)
  end
end

local function write_header()
  local set, drop = {}, {}
  for field in pairs(changed_fields) do
    if head[field] then
      set[#set + 1] = field
      set[#set + 1] = head[field]
    else
      drop[#drop + 1] = field
    end
  end
  if #set > 0 then redis.call('HSET', KEYS[1], unpack(set)) end
  if #drop > 0 then redis.call('HDEL', KEYS[1], unpack(drop)) end
end

local function drop_record(run)
  redis.call('HDEL', KEYS[2], run.key)
  redis.call('ZREM', KEYS[3], run.key)
  redis.call('HDEL', KEYS[4], run.key)
  if run.manual then
    redis.call('HDEL', KEYS[2], 'token:' .. run.token)
  else
    set_number('floor', math.max(number_in('floor'), run.slot))
  end
end

-- The slot of the `count`-th newest scheduled run, unfinished ones included.
local function newest_scheduled(count)
  local slots, from = {}, 0
  for _, run in ipairs(open) do
    if is_unfinished(run) and not run.manual then slots[#slots + 1] = run.slot end
  end
  local records = 0
  repeat
    local keys = redis.call('ZREVRANGE', KEYS[3], from, from + count)
    for _, key in ipairs(keys) do
      if string.sub(key, -1) ~= 'm' then
        slots[#slots + 1] = tonumber(key)
        records = records + 1
      end
    end
    from = from + count + 1
  until #keys <= count or records >= count
  if #slots < count then return -math.huge end
  table.sort(slots)
  return slots[#slots - count + 1]
end

-- Of the ended records keep the newest `historySize` and none older than `historyTtlMs`, but never
-- drop one that a late claim could still ask for: what is younger than `keepMs`, and the newest
-- `keepSlots` within `keepWindowMs`.
local function trim()
  local excess = redis.call('ZCARD', KEYS[3]) - number_in('historySize')
  local ttl = tonumber(head.historyTtlMs)
  if excess <= 0 and not ttl then return end
  -- A slot that is itself young ends the search: all that come after it are younger.
  local latest = now - number_in('keepMs')
  local keys
  if ttl then
    keys = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', int(latest))
  else
    keys = redis.call('ZRANGEBYSCORE', KEYS[3], '-inf', int(latest), 'LIMIT', 0, int(excess))
  end
  local keep_slots, window, oldest_wanted = number_in('keepSlots'), number_in('keepWindowMs'), nil
  for i, key in ipairs(keys) do
    local run = parse_run(key, redis.call('HGET', KEYS[2], key))
    local ended = run.ended_at or run.at
    local is_over = i <= excess or (ttl and ended + ttl <= now)
    if is_over and ended <= latest then
      local is_wanted = false
      if not run.manual and keep_slots > 0 and run.slot + window > now then
        oldest_wanted = oldest_wanted or newest_scheduled(keep_slots)
        is_wanted = run.slot >= oldest_wanted
      end
      if not is_wanted then drop_record(run) end
    end
  end
end

-- Writes what has been decided, and trims. A call that changed nothing writes nothing.
local function commit()
  if not is_changed then return end
  write_runs()
  trim()
  write_header()
end
