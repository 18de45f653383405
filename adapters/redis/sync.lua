-- One call of a member, version 2. The rules are those of pooltest.Memory, and
-- both pass its list.
--
-- Numbers are doubles here, exact up to 2^53. Requests are checked before they
-- are sent: no amount is above 1e12, no rate above 1e10, nothing above 2^53. A slot
-- holds 1e14 at most, so a balance, doubled for the share, stays below 4.1e15, and
-- so does a time in microseconds until the year 2099; 2^53 is 9e15. Numbers become
-- text by %.0f: Lua's own form has 14 digits. MessagePack, which all that is stored
-- lies in as one text, keeps whole numbers whole.
--
-- KEYS: pool, seen. ARGV: member, seq, epoch, donate, expires, return, lent, want,
-- per second, burst, hold in microseconds, leave, most members.

local SECOND, TOKEN, SLOT = 1000000, 1000000, 1e14
local LEASE, CREDITS, CREDIT_SLOT, LENTS, LENT_SLOT = SECOND, 20, SECOND / 2, 12, SECOND / 8
local FORGET, HOLD, DAY = 600 * SECOND, 60 * SECOND, 86400
local pool, seen, member = KEYS[1], KEYS[2], ARGV[1]
local n = {}
for i = 2, 13 do n[i] = tonumber(ARGV[i]) end
local seq, epoch, donate, expires, back, lent = n[2], n[3], n[4], n[5], n[6], n[7]
local want, rate, burst, hold, leave, most = n[8], n[9], n[10], n[11], n[12], n[13]
local function text(x) return string.format('%.0f', x) end
local function div(a, b) return (a - a % b) / b end

local clock = redis.call('TIME')
local now = tonumber(clock[1]) * SECOND + tonumber(clock[2])
local accrued, expired = 0, 0

-- What a failover or a restart brings back may be older than what was said since,
-- so a pool belongs to one history of the data, and another one starts anew. Who may
-- not ask for it goes without.
local info = redis.pcall('INFO', 'replication')
local history = type(info) == 'string' and info:match('master_replid:(%w+)') or ''

local got = redis.call('HMGET', pool, 'state', 'm' .. member)
local s = got[1] and cmsgpack.unpack(got[1])
local served = s and tonumber(got[2] or '0') or 0
local crowd = redis.call('ZCARD', seen)
-- Each member of the one key is in the other, so that the first bounds both. When
-- that one was evicted nobody knows who is in the other.
if s and (s.history ~= history or now < s.at or crowd == 0) then
	redis.call('DEL', pool, seen)
	s, served, crowd = nil, 0, 0
end

local function forget()
	local gone = redis.call('ZRANGEBYSCORE', seen, '-inf', '(' .. text(now - FORGET), 'LIMIT', 0, 64)
	for _, m in ipairs(gone) do
		redis.call('ZREM', seen, m)
		redis.call('HDEL', pool, 'm' .. m)
	end
	return #gone
end

-- Whether there is room is decided before anything is written.
if served == 0 and crowd >= most and forget() == 0 and not redis.call('ZSCORE', seen, member) then
	return redis.error_reply('CURFEWFULL the pool has ' .. text(most) .. ' members and takes no more')
end

local before = s and s.at or 0
if not s then
	s = {history = history, epoch = now, at = now, floor = 0, rest = 0, hold = 0, credit = {}, lent = {}}
	for i = 1, CREDITS do s.credit[i] = 0 end
	for i = 1, LENTS do s.lent[i] = 0 end
	s.lent[LENTS] = burst
end

local function shift(list)
	local first = table.remove(list, 1)
	list[#list + 1] = 0
	return first
end
local function fill(till)
	local room, past = burst - s.floor, till - s.at
	for i = 1, LENTS do room = room - s.lent[i] end
	room = math.max(room, 0)
	local gained = room
	if rate == 0 or div(past, SECOND) <= div(room, rate) then
		local part = past % SECOND * (rate % TOKEN) + s.rest
		gained = div(past, SECOND) * rate + past % SECOND * div(rate, TOKEN) + div(part, SECOND)
		s.rest = part % SECOND
	end
	if gained >= room then
		gained, s.rest = room, 0
	end
	s.floor = s.floor + gained
	accrued = accrued + gained
	s.at = till
end
for _ = 1, math.min(div(now, CREDIT_SLOT) - div(s.at, CREDIT_SLOT), CREDITS) do
	expired = expired + shift(s.credit)
end
if s.floor > burst then
	expired = expired + s.floor - burst
	s.floor = burst
end
local slot = div(s.at, LENT_SLOT) + 1
for _ = 1, math.min(div(now, LENT_SLOT) - slot + 1, LENTS) do
	fill(slot * LENT_SLOT)
	shift(s.lent)
	slot = slot + 1
end
fill(now)

local fresh = seq > served
if fresh then
	if hold > 0 then s.hold = math.max(s.hold, now + hold) end
	local i = math.min(div(math.max(expires - LEASE, 0), CREDIT_SLOT) - div(now, CREDIT_SLOT), CREDITS)
	if epoch ~= s.epoch or i < 1 then
		expired = expired + donate
	else
		s.credit[i] = s.credit[i] + donate
		if s.credit[i] > SLOT then
			expired = expired + s.credit[i] - SLOT
			s.credit[i] = SLOT
		end
	end
	i = lent - div(now, LENT_SLOT)
	if epoch ~= s.epoch or i < 1 or i > LENTS or s.lent[i] < back then
		expired = expired + back
	else
		s.lent[i] = s.lent[i] - back
		s.floor = s.floor + back
	end
	redis.call('ZADD', seen, text(leave == 1 and now - SECOND - 1 or now), member)
end

local members = math.max(redis.call('ZCOUNT', seen, text(now - SECOND), '+inf'), 1)
local balance = s.floor
for i = 1, CREDITS do balance = balance + s.credit[i] end
local held = math.min(math.max(s.hold - now, 0), HOLD)
local granted, life, floor, place, ends = 0, 0, 0, 0, 0
if fresh and held == 0 then
	granted = math.min(want, balance, math.max(2 * TOKEN, div(2 * balance, members)))
	granted = granted - granted % TOKEN
end
if granted > 0 then
	local places = LENTS
	if rate > 0 then
		places = math.min(math.max(div(SECOND / LENT_SLOT / 2 * burst, rate), 2), LENTS)
	end
	life = div(LEASE * (places - 1), LENTS - 1)
	local due = granted
	for i = 1, CREDITS do
		local part = math.min(due, s.credit[i])
		if part > 0 and ends == 0 then
			ends = (div(now, CREDIT_SLOT) + i) * CREDIT_SLOT + LEASE
		end
		s.credit[i] = s.credit[i] - part
		due = due - part
	end
	if due > 0 then
		floor, place = due, div(now, LENT_SLOT) + places
		s.floor = s.floor - due
		s.lent[places] = s.lent[places] + due
	end
	balance = balance - granted
end

redis.call('HSET', pool, 'state', cmsgpack.pack(s), 'm' .. member, text(math.max(seq, served)))
if div(now, SECOND) ~= div(before, SECOND) then -- once a second will do
	if fresh then forget() end -- the caller is there, so that something is left
	-- Ten minutes are more than all that is remembered here is worth. A target that
	-- is in use for longer keeps its floor through quiet times, for up to a day; a
	-- name that somebody made up does not stay.
	local ttl = math.min(math.max(24 * div(now - s.epoch, SECOND), FORGET / SECOND), DAY)
	redis.call('EXPIRE', pool, text(ttl))
	redis.call('EXPIRE', seen, text(ttl))
end
local reply = {ARGV[1] .. ' ' .. ARGV[2]}
for i, x in ipairs({s.epoch, now, granted, life, floor, place, ends, balance, members, held, accrued, expired}) do
	reply[i + 1] = text(x)
end
return reply
