-- For tests only: the time (ms) is given as the last ARGV, so that a reference sees the same clock.
local now = tonumber(ARGV[#ARGV])
