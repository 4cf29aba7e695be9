-- Wireshark dissector of tiercast messages; docs/wire-format.md describes them.
-- Fields are named tiercast.<field> in the common header, tiercast.<scheme>.<field> after it and
-- tiercast.<scheme>.record.<field> in records. A message that a reader would reject carries
-- tiercast.error, with the name of the error, and whatever fields came before it.

local DATA_PORT, FEEDBACK_PORT = 5500, 5501
local VERSION, DATA = 1, 1
local MAX_SESSION = 32767
local COMMON_BYTES, KIND_OFFSET = 8, 8
local TYPES = { "data", "feedback", "control" }
local TRIAL = 255  -- of a scheme that has no number

-- What the rules of the table use.
local function newer(a, b)
    local ahead = (a - b) % 4294967296
    return 0 < ahead and ahead < 2147483648
end
local function bit(value, one)
    return math.floor(value / one) % 2 == 1
end

-- A field is { name, bytes } or { name, bytes, least, most, error of another value }.
-- The table of messages, made by `python -m tiercast_wire.lua` from messages.py.
local SCHEMES = { [1] = "sim", [2] = "ermcc", [3] = "rla", [4] = "mlda", [5] = "mdpcc", [6] = "tfmcc", [7] = "pgmcc", [8] = "rlm", [9] = "rlc", [10] = "plm" }
local MESSAGES = {
    {
        name = "SimData", scheme = 1, type = 1,
        fields = {
            { "rank", 1, 0, 7, "rank" },
            { "reserved", 1, 0, 0, "reserved" },
            { "rate_epoch", 2 },
            { "seq", 4 },
            { "tx_time_us", 4 },
            { "fb_req", 4 },
            { "group_rate", 4 },
            { "max_rtt_us", 4 },
        },
    },
    {
        name = "SimFeedback", scheme = 1, type = 2,
        fields = {
            { "source", 4 },
            { "fb_req", 4 },
            { "hold_us", 4 },
            { "subtree_rtt_us", 4 },
            { "record_count", 1, 0, 8, "record_count" },
            { "reserved", 3, 0, 0, "reserved" },
        },
        record = {
            { "rank", 1, 0, 7, "rank" },
            { "reserved", 3, 0, 0, "reserved" },
            { "reports", 4 },
            { "congested", 4 },
            { "min_cum_rate", 4 },
            { "max_cum_rate", 4 },
            { "receivers", 4 },
        },
        record_rule = function(r, previous, m) return r.rank > previous.rank and r.congested <= r.reports and r.reports <= r.receivers and r.min_cum_rate <= r.max_cum_rate end,
    },
    {
        name = "ErmccData", scheme = 2, type = 1,
        fields = {
            { "cr_valid", 1, 0, 1, "record" },
            { "reserved", 3, 0, 0, "reserved" },
            { "seq", 4 },
            { "cr", 4 },
            { "mu_hat", 4 },
            { "sigma_hat", 4 },
            { "ask_from", 4 },
            { "ask_share", 4 },
        },
    },
    {
        name = "ErmccFeedback", scheme = 2, type = 2,
        fields = {
            { "kind", 1, 1, 2, "type" },
            { "reserved", 3, 0, 0, "reserved" },
            { "source", 4 },
            { "seq", 4 },
            { "omega", 4 },
            { "mu", 4 },
            { "sigma", 4 },
        },
    },
    {
        name = "RlaData", scheme = 3, type = 1,
        fields = {
            { "flags", 1, 0, 7, "reserved" },
            { "reserved", 1, 0, 0, "reserved" },
            { "payload_length", 2 },
            { "seq", 4 },
            { "tx_time_us", 4 },
            { "base", 4 },
            { "offset_high", 4 },
            { "offset_low", 4 },
        },
        rule = function(r, previous, m) return not newer(r.base, r.seq) and (r.payload_length > 0 or (r.offset_high == 0 and r.offset_low == 0 and not bit(r.flags, 2))) end,
        payload_length = "payload_length",
    },
    {
        name = "RlaAck", scheme = 3, type = 2,
        fields = {
            { "flags", 1, 0, 15, "reserved" },
            { "record_count", 1, 0, 3, "record_count" },
            { "rwnd", 2 },
            { "source", 4 },
            { "cum_ack", 4 },
            { "echo_time_us", 4 },
        },
        record = {
            { "sack_start", 4 },
            { "sack_end", 4 },
        },
        record_rule = function(r, previous, m) return newer(r.sack_end, r.sack_start) and newer(r.sack_start, m.cum_ack) and newer(r.sack_end, m.cum_ack) end,
    },
    {
        name = "MldaData", scheme = 4, type = 1,
        fields = {
            { "rank", 1, 0, 7, "rank" },
            { "pair", 1, 0, 2, "reserved" },
            { "reserved", 2, 0, 0, "reserved" },
            { "seq", 4 },
            { "tx_time_us", 4 },
        },
    },
    {
        name = "MldaSenderReport", scheme = 4, type = 3,
        kind = 1,
        fields = {
            { "kind", 1, 1, 1, "type" },
            { "record_count", 1, 1, 8, "record_count" },
            { "reserved", 2, 0, 0, "reserved" },
            { "sr_seq", 4 },
            { "tx_time_us", 4 },
            { "max_rtt_us", 4 },
        },
        record = {
            { "rate", 4 },
        },
        record_rule = function(r, previous, m) return r.rate > 0 end,
    },
    {
        name = "MldaReceiverReport", scheme = 4, type = 2,
        fields = {
            { "rank", 1, 0, 7, "rank" },
            { "asks_rtt", 1, 0, 1, "reserved" },
            { "reserved", 2, 0, 0, "reserved" },
            { "source", 4 },
            { "sr_seq", 4 },
            { "rate", 4 },
            { "loss", 4 },
            { "rtt_us", 4 },
            { "rx_time_us", 4 },
        },
    },
    {
        name = "MldaReflection", scheme = 4, type = 3,
        kind = 2,
        fields = {
            { "kind", 1, 2, 2, "type" },
            { "rank", 1, 0, 7, "rank" },
            { "asks_rtt", 1, 0, 1, "reserved" },
            { "reserved", 1, 0, 0, "reserved" },
            { "source", 4 },
            { "sr_seq", 4 },
            { "rate", 4 },
            { "rx_time_us", 4 },
            { "tx_time_us", 4 },
        },
    },
    {
        name = "MdpccData", scheme = 5, type = 1,
        fields = {
            { "object_id", 2 },
            { "segment_size", 2 },
            { "seq", 4 },
            { "segment", 4 },
            { "segment_count", 4 },
            { "payload_length", 2 },
            { "reserved", 2, 0, 0, "reserved" },
        },
    },
    {
        name = "MdpccProbe", scheme = 5, type = 3,
        kind = 1,
        fields = {
            { "kind", 1, 1, 1, "type" },
            { "record_count", 1, 0, 5, "record_count" },
            { "probe_seq", 2 },
            { "tx_time_us", 4 },
            { "grtt_us", 4 },
            { "tx_rate", 4 },
            { "group_size", 2 },
            { "backoff", 1 },
            { "reserved", 1, 0, 0, "reserved" },
            { "object_id", 2 },
            { "segment_size", 2 },
            { "segment_count", 4 },
            { "next_segment", 4 },
        },
        record = {
            { "receiver", 4 },
            { "rtt_us", 4 },
            { "rate", 4 },
            { "flags", 1 },
            { "reserved", 3, 0, 0, "reserved" },
        },
    },
    {
        name = "MdpccReport", scheme = 5, type = 2,
        kind = 1,
        fields = {
            { "kind", 1, 1, 1, "type" },
            { "flags", 1 },
            { "probe_seq", 2 },
            { "source", 4 },
            { "response_us", 4 },
            { "loss", 4 },
            { "rate", 4 },
            { "received_rate", 4 },
            { "rtt_us", 4 },
        },
    },
    {
        name = "MdpccReportReflection", scheme = 5, type = 3,
        kind = 2,
        fields = {
            { "kind", 1, 2, 2, "type" },
            { "flags", 1 },
            { "probe_seq", 2 },
            { "source", 4 },
            { "response_us", 4 },
            { "loss", 4 },
            { "rate", 4 },
            { "received_rate", 4 },
            { "rtt_us", 4 },
        },
    },
    {
        name = "MdpccNack", scheme = 5, type = 2,
        kind = 2,
        fields = {
            { "kind", 1, 2, 2, "type" },
            { "record_count", 1, 0, 64, "record_count" },
            { "object_id", 2 },
            { "source", 4 },
        },
        record = {
            { "first", 4 },
            { "count", 4 },
        },
        record_rule = function(r, previous, m) return r.count > 0 and r.first + r.count <= 4294967295 and r.first >= previous.first + previous.count end,
    },
    {
        name = "MdpccNackReflection", scheme = 5, type = 3,
        kind = 3,
        fields = {
            { "kind", 1, 3, 3, "type" },
            { "record_count", 1, 0, 64, "record_count" },
            { "object_id", 2 },
            { "source", 4 },
        },
        record = {
            { "first", 4 },
            { "count", 4 },
        },
        record_rule = function(r, previous, m) return r.count > 0 and r.first + r.count <= 4294967295 and r.first >= previous.first + previous.count end,
    },
    {
        name = "TfmccData", scheme = 6, type = 1,
        fields = {
            { "echo_valid", 1, 0, 1, "record" },
            { "is_clr", 1, 0, 1, "record" },
            { "reserved", 2, 0, 0, "reserved" },
            { "seq", 4 },
            { "tx_time_us", 4 },
            { "fb_round", 2 },
            { "reserved_2", 2, 0, 0, "reserved" },
            { "supp_rate", 4 },
            { "max_rtt_us", 4 },
            { "echo_source", 4 },
            { "echo_time_us", 4 },
        },
    },
    {
        name = "TfmccFeedback", scheme = 6, type = 2,
        fields = {
            { "have_rtt", 1, 0, 1, "record" },
            { "have_loss", 1, 0, 1, "record" },
            { "leave", 1, 0, 1, "record" },
            { "reserved", 1, 0, 0, "reserved" },
            { "source", 4 },
            { "fb_round", 2 },
            { "reserved_2", 2, 0, 0, "reserved" },
            { "rate", 4 },
            { "time_us", 4 },
            { "echo_time_us", 4 },
        },
    },
    {
        name = "PgmccData", scheme = 7, type = 1,
        fields = {
            { "has_acker", 1, 0, 1, "reserved" },
            { "reserved", 3, 0, 0, "reserved" },
            { "seq", 4 },
            { "tx_time_us", 4 },
            { "acker", 4 },
        },
    },
    {
        name = "PgmccFeedback", scheme = 7, type = 2,
        fields = {
            { "kind", 1, 1, 4, "type" },
            { "reserved", 3, 0, 0, "reserved" },
            { "source", 4 },
            { "rx_max", 4 },
            { "bitmap", 4 },
            { "echo_time_us", 4 },
            { "hold_us", 4 },
            { "loss", 4 },
            { "missing", 4 },
        },
        rule = function(r, previous, m) return r.kind == 2 or r.missing == 0 end,
        late_kind = true,
    },
    {
        name = "PgmccConfirmation", scheme = 7, type = 3,
        fields = {
            { "kind", 1, 1, 1, "type" },
            { "reserved", 3, 0, 0, "reserved" },
            { "source", 4 },
            { "missing", 4 },
        },
        late_kind = true,
    },
    {
        name = "RlmData", scheme = 8, type = 1,
        fields = {
            { "rank", 1, 0, 7, "rank" },
            { "reserved", 3, 0, 0, "reserved" },
            { "seq", 4 },
        },
    },
    {
        name = "RlmAnnouncement", scheme = 8, type = 2,
        fields = {
            { "rank", 1, 0, 7, "rank" },
            { "reserved", 3, 0, 0, "reserved" },
            { "source", 4 },
        },
    },
    {
        name = "RlmAnnouncementReflection", scheme = 8, type = 3,
        fields = {
            { "rank", 1, 0, 7, "rank" },
            { "reserved", 3, 0, 0, "reserved" },
            { "source", 4 },
        },
    },
    {
        name = "RlcData", scheme = 9, type = 1,
        fields = {
            { "rank", 1, 0, 7, "rank" },
            { "sync_point", 1, 0, 1, "reserved" },
            { "reserved", 2, 0, 0, "reserved" },
            { "seq", 4 },
        },
    },
    {
        name = "PlmData", scheme = 10, type = 1,
        fields = {
            { "rank", 1, 0, 7, "rank" },
            { "pair", 1, 1, 2, "record" },
            { "reserved", 2, 0, 0, "reserved" },
            { "seq", 4 },
        },
    },
}
-- End of the table.

local proto = Proto("tiercast", "tiercast")
local fields, list = {}, {}

local function field(name, constructor, text, ...)
    if fields[name] then return end
    fields[name] = constructor("tiercast." .. name, text, ...)
    list[#list + 1] = fields[name]
end

field("version", ProtoField.uint8, "Version")
field("type", ProtoField.uint8, "Type", base.DEC, TYPES)
field("scheme", ProtoField.uint8, "Scheme", base.DEC, SCHEMES)
field("flags", ProtoField.uint8, "Flags", base.HEX)
field("header_length", ProtoField.uint16, "Header length (bytes)")
field("session", ProtoField.uint16, "Session")
field("message", ProtoField.string, "Message")
field("headers", ProtoField.bytes, "Headers of a scheme without a table here")
field("payload", ProtoField.bytes, "Payload")
field("group.session", ProtoField.uint16, "Session of the group address")
field("group.rank", ProtoField.uint8, "Rank of the group address")
field("error", ProtoField.string, "Rejected")

local NUMBERS = { ProtoField.uint8, ProtoField.uint16, ProtoField.uint24, ProtoField.uint32 }
local UNITS = { us = "us", rate = "bytes/s" }

local function size(layout)
    local bytes = 0
    for _, part in ipairs(layout) do bytes = bytes + part[2] end
    return bytes
end

-- "tx_time_us" -> "tx time (us)"
local function text(name)
    local words, unit = name:match("^(.*)_(us)$")
    if not unit then words, unit = name, name:match("rate$") end
    words = words:gsub("_", " ")
    return unit and string.format("%s (%s)", words, UNITS[unit]) or words
end

local by_scheme_and_type = {}
for _, one in ipairs(MESSAGES) do
    local scheme = SCHEMES[one.scheme]
    one.fixed_bytes = COMMON_BYTES + size(one.fields)
    one.record = one.record or {}
    one.record_bytes = size(one.record)
    one.prefix = scheme .. "."
    for _, part in ipairs(one.fields) do
        field(one.prefix .. part[1], NUMBERS[part[2]], text(part[1]))
    end
    if #one.record > 0 then
        field(one.prefix .. "record", ProtoField.none, "Record")
        for _, part in ipairs(one.record) do
            field(one.prefix .. "record." .. part[1], NUMBERS[part[2]], text(part[1]))
        end
    end
    by_scheme_and_type[one.scheme] = by_scheme_and_type[one.scheme] or {}
    local types = by_scheme_and_type[one.scheme]
    types[one.type] = types[one.type] or {}
    table.insert(types[one.type], one)
end
proto.fields = list

local rejected = ProtoExpert.new(
    "tiercast.rejected", "A reader rejects this message", expert.group.MALFORMED, expert.severity.ERROR)
proto.experts = { rejected }

local ip_dst = Field.new("ip.dst")

-- The parts below add their fields to the tree, and return the name of the first error, or nil.

-- Returns the numbers by name.
local function add_fields(tree, buffer, layout, prefix)
    local values, offset = {}, 0
    for _, part in ipairs(layout) do
        local name, bytes = part[1], part[2]
        local range = buffer(offset, bytes)
        tree:add(fields[prefix .. name], range)
        values[name] = range:uint()
        offset = offset + bytes
    end
    return values
end

-- Whether all fields that cause this error have a valid value.
local function valid(layout, values, error)
    for _, part in ipairs(layout) do
        local least, most = part[3], part[4]
        if part[5] == error and (values[part[1]] < least or values[part[1]] > most) then return false end
    end
    return true
end

local function records(tree, buffer, layout, values)
    local previous = {}
    for _, part in ipairs(layout.record) do previous[part[1]] = -1 end
    for i = 0, values.record_count - 1 do
        local range = buffer(layout.fixed_bytes + i * layout.record_bytes, layout.record_bytes)
        local branch = tree:add(fields[layout.prefix .. "record"], range)
        local record = add_fields(branch, range, layout.record, layout.prefix .. "record.")
        branch:append_text(string.format(" %d", i))
        for _, error in ipairs({ "rank", "reserved" }) do
            if not valid(layout.record, record, error) then return error end
        end
        if layout.record_rule and not layout.record_rule(record, previous, values) then return "record" end
        previous = record
    end
end

local function body(tree, buffer, layout, common)
    if buffer:len() < layout.fixed_bytes then return "short" end
    local values = add_fields(
        tree, buffer(COMMON_BYTES, layout.fixed_bytes - COMMON_BYTES), layout.fields, layout.prefix)
    if not layout.late_kind and not valid(layout.fields, values, "type") then return "type" end
    if not valid(layout.fields, values, "record_count") then return "record_count" end
    local length = layout.fixed_bytes + layout.record_bytes * (values.record_count or 0)
    if common.type == DATA and buffer:len() > length then
        tree:add(fields.payload, buffer(length))
    end
    if common.header_length ~= length then return "length" end
    if common.type ~= DATA then
        if buffer:len() < length then return "short" end
        if buffer:len() > length then return "length" end
    end
    if layout.late_kind and not valid(layout.fields, values, "type") then return "type" end
    for _, error in ipairs({ "rank", "reserved" }) do
        if not valid(layout.fields, values, error) then return error end
    end
    if layout.payload_length and buffer:len() < length + values[layout.payload_length] then return "short" end
    if not valid(layout.fields, values, "record") then return "record" end
    if layout.rule and not layout.rule(values, {}, values) then return "record" end
    if values.record_count then return records(tree, buffer, layout, values) end
end

-- The message's layout, or nil and the error.
local function find(buffer, common)
    local known = by_scheme_and_type[common.scheme][common.type]
    if not known then return nil, "type" end
    if not known[1].kind then return known[1] end
    if buffer:len() <= KIND_OFFSET then return nil, "short" end
    local kind = buffer(KIND_OFFSET, 1):uint()
    for _, one in ipairs(known) do
        if one.kind == kind then return one end
    end
    return nil, "type"
end

local COMMON = {
    { "version", 1 }, { "type", 1 }, { "scheme", 1 }, { "flags", 1 }, { "header_length", 2 }, { "session", 2 },
}

-- A message of a scheme whose fields are not known here. Nothing but its common header is judged.
local function without_table(tree, buffer, common)
    local length = common.header_length
    if length < COMMON_BYTES then return "length" end
    if buffer:len() < length then return "short" end
    if length > COMMON_BYTES then tree:add(fields.headers, buffer(COMMON_BYTES, length - COMMON_BYTES)) end
    if buffer:len() > length then tree:add(fields.payload, buffer(length)) end
    local name = SCHEMES[common.scheme] or string.format("scheme %d", common.scheme)
    return nil, string.format("%s of %s, session %d", TYPES[common.type], name, common.session)
end

local function message(tree, buffer)
    if buffer:len() < COMMON_BYTES then return "short" end
    local common = add_fields(tree, buffer(0, COMMON_BYTES), COMMON, "")
    if common.version ~= VERSION then return "version" end
    if not TYPES[common.type] then return "type" end
    local listed = by_scheme_and_type[common.scheme]
    if not (listed or SCHEMES[common.scheme] or common.scheme == TRIAL) then return "scheme" end
    if common.flags ~= 0 then return "flags" end
    if common.session > MAX_SESSION then return "session" end
    if not listed then return without_table(tree, buffer, common) end
    local layout, problem = find(buffer, common)
    if not layout then return problem end
    tree:add(fields.message, layout.name):set_generated()
    return body(tree, buffer, layout, common), string.format("%s session %d", layout.name, common.session)
end

-- A group's address is its name: 239.192.0.0/14 + (session << 3 | rank).
local function group(tree, address)
    local a, b, c, d = address:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
    a, b, c, d = tonumber(a), tonumber(b), tonumber(c), tonumber(d)
    if a == 239 and b >= 192 and b <= 195 then
        local suffix = (b - 192) * 65536 + c * 256 + d
        tree:add(fields["group.session"], math.floor(suffix / 8)):set_generated()
        tree:add(fields["group.rank"], suffix % 8):set_generated()
    end
end

function proto.dissector(buffer, pinfo, tree)
    pinfo.cols.protocol = "tiercast"
    local branch = tree:add(proto, buffer())
    local destination = ip_dst()
    if destination then group(branch, tostring(destination.value)) end
    local problem, summary = message(branch, buffer())
    if problem then
        branch:add(fields.error, problem):set_generated()
        branch:add_proto_expert_info(rejected, "Rejected: " .. problem)
        pinfo.cols.info = "Rejected: " .. problem
    else
        pinfo.cols.info = summary
    end
    return buffer:len()
end

local udp_port = DissectorTable.get("udp.port")
udp_port:add(DATA_PORT, proto)
udp_port:add(FEEDBACK_PORT, proto)
