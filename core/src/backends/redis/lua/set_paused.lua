-- Pauses or resumes a job.
--
-- KEYS     job, records, order, bodies, missed
-- ARGV[1]  1 to pause, 0 to resume
-- ARGV[2]  who asks
-- ARGV[3]  why: `-` for none, else the text behind a `+`
-- Answers  1

if ARGV[1] == '1' then
  if not head.pausedSince then set_field('pausedSince', int(now)) end
  set_field('pausedBy', ARGV[2])
  set_field('pausedReason', optional_text(ARGV[3]))
elseif head.pausedSince then
  -- A pause is not caught up: its slots are accounted for here, for the whole fleet.
  record_missed(number_in('pausedSince'), now, '0', 'paused', head.pausedBy or '')
  set_field('pausedSince', nil)
  set_field('pausedBy', nil)
  set_field('pausedReason', nil)
end
commit()
return 1
