-- Wireshark dissector of tiercast messages; docs/wire-format.md describes them.
-- Fields are named tiercast.<field> (records: tiercast.record.<field>). A message that a reader would
-- reject carries tiercast.error, with the name of the error, and whatever fields came before it.

local DATA_PORT, FEEDBACK_PORT = 5500, 5501
local VERSION, DATA, FEEDBACK, SIM = 1, 1, 2, 1
local MAX_SESSION, MAX_RANK, MAX_RECORDS = 32767, 7, 8
local COMMON_BYTES, DATA_BYTES, FEEDBACK_BYTES, RECORD_BYTES = 8, 32, 28, 24
local TYPES = { [DATA] = "data", [FEEDBACK] = "feedback" }
local SCHEMES = {
    "sim", "ermcc", "rla", "mlda", "mdpcc", "tfmcc", "pgmcc", "rlm",
}

local proto = Proto("tiercast", "tiercast")
local fields = {}

local function field(name, constructor, text, ...)
    fields[name] = constructor("tiercast." .. name, text, ...)
end

field("version", ProtoField.uint8, "Version")
field("type", ProtoField.uint8, "Type", base.DEC, TYPES)
field("scheme", ProtoField.uint8, "Scheme", base.DEC, SCHEMES)
field("flags", ProtoField.uint8, "Flags", base.HEX)
field("header_length", ProtoField.uint16, "Header length (bytes)")
field("session", ProtoField.uint16, "Session")
field("rank", ProtoField.uint8, "Rank")
field("reserved", ProtoField.bytes, "Reserved")
field("rate_epoch", ProtoField.uint16, "Rate epoch")
field("seq", ProtoField.uint32, "Sequence number")
field("tx_time_us", ProtoField.uint32, "Departure (us, sender's clock)")
field("fb_req", ProtoField.uint32, "Feedback request number")
field("group_rate", ProtoField.uint32, "Group rate (bytes/s)")
field("max_rtt_us", ProtoField.uint32, "Maximum RTT (us)")
field("payload", ProtoField.bytes, "Payload")
field("source", ProtoField.uint32, "Source")
field("hold_us", ProtoField.uint32, "Hold (us)")
field("subtree_rtt_us", ProtoField.uint32, "RTT of the subtree (us)")
field("record_count", ProtoField.uint8, "Record count")
field("record", ProtoField.none, "Record")
field("record.rank", ProtoField.uint8, "Rank")
field("record.reserved", ProtoField.bytes, "Reserved")
field("record.reports", ProtoField.uint32, "Reports")
field("record.congested", ProtoField.uint32, "Congested reports")
field("record.min_cum_rate", ProtoField.uint32, "Minimum cumulative rate (bytes/s)")
field("record.max_cum_rate", ProtoField.uint32, "Maximum cumulative rate (bytes/s)")
field("record.receivers", ProtoField.uint32, "Receivers")
field("group.session", ProtoField.uint16, "Session of the group address")
field("group.rank", ProtoField.uint8, "Rank of the group address")
field("error", ProtoField.string, "Rejected")

local list = {}
for _, one in pairs(fields) do
    list[#list + 1] = one
end
proto.fields = list

local rejected = ProtoExpert.new(
    "tiercast.rejected", "A reader rejects this message", expert.group.MALFORMED, expert.severity.ERROR)
proto.experts = { rejected }

local ip_dst = Field.new("ip.dst")

-- The parts below add their fields to the tree, and return the name of the first error, or nil.

-- layout: { name, bytes } in order; prefix: "" or "record.". Returns the numbers by name.
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

local COMMON = {
    { "version", 1 }, { "type", 1 }, { "scheme", 1 }, { "flags", 1 }, { "header_length", 2 }, { "session", 2 },
}
local SIM_DATA = {
    { "rank", 1 }, { "reserved", 1 }, { "rate_epoch", 2 }, { "seq", 4 }, { "tx_time_us", 4 }, { "fb_req", 4 },
    { "group_rate", 4 }, { "max_rtt_us", 4 },
}
local SIM_FEEDBACK = {
    { "source", 4 }, { "fb_req", 4 }, { "hold_us", 4 }, { "subtree_rtt_us", 4 }, { "record_count", 1 },
    { "reserved", 3 },
}
local SIM_RECORD = {
    { "rank", 1 }, { "reserved", 3 }, { "reports", 4 }, { "congested", 4 }, { "min_cum_rate", 4 },
    { "max_cum_rate", 4 }, { "receivers", 4 },
}

local function sim_data(tree, buffer, common)
    if buffer:len() < DATA_BYTES then return "short" end
    local data = add_fields(tree, buffer(COMMON_BYTES, DATA_BYTES - COMMON_BYTES), SIM_DATA, "")
    if buffer:len() > DATA_BYTES then tree:add(fields.payload, buffer(DATA_BYTES)) end
    if common.header_length ~= DATA_BYTES then return "length" end
    if data.rank > MAX_RANK then return "rank" end
    if data.reserved ~= 0 then return "reserved" end
    return nil, string.format("data, layer %d, seq %d, fb_req %d", data.rank, data.seq, data.fb_req)
end

local function sim_record(tree, range, rank_before)
    local branch = tree:add(fields.record, range)
    local record = add_fields(branch, range, SIM_RECORD, "record.")
    if record.rank > MAX_RANK then return "rank" end
    if record.reserved ~= 0 then return "reserved" end
    if record.rank <= rank_before then return "record" end
    if record.congested > record.reports or record.reports > record.receivers then return "record" end
    if record.min_cum_rate > record.max_cum_rate then return "record" end
    if record.receivers == 0 then branch:append_text(" (BYE)") end
    return nil, record.rank
end

local function sim_feedback(tree, buffer, common)
    if buffer:len() < FEEDBACK_BYTES then return "short" end
    local feedback = add_fields(tree, buffer(COMMON_BYTES, FEEDBACK_BYTES - COMMON_BYTES), SIM_FEEDBACK, "")
    if feedback.record_count > MAX_RECORDS then return "record_count" end
    local length = FEEDBACK_BYTES + RECORD_BYTES * feedback.record_count
    if common.header_length ~= length then return "length" end
    if buffer:len() < length then return "short" end
    if buffer:len() > length then return "length" end
    if feedback.reserved ~= 0 then return "reserved" end
    local rank = -1
    for offset = FEEDBACK_BYTES, length - 1, RECORD_BYTES do
        local problem
        problem, rank = sim_record(tree, buffer(offset, RECORD_BYTES), rank)
        if problem then return problem end
    end
    return nil, string.format("feedback of %d, fb_req %d, %d records", feedback.source, feedback.fb_req,
        feedback.record_count)
end

local function message(tree, buffer)
    if buffer:len() < COMMON_BYTES then return "short" end
    local common = add_fields(tree, buffer(0, COMMON_BYTES), COMMON, "")
    if common.version ~= VERSION then return "version" end
    if not TYPES[common.type] then return "type" end
    if common.scheme ~= SIM then return "scheme" end
    if common.flags ~= 0 then return "flags" end
    if common.session > MAX_SESSION then return "session" end
    local problem, summary
    if common.type == DATA then
        problem, summary = sim_data(tree, buffer, common)
    else
        problem, summary = sim_feedback(tree, buffer, common)
    end
    return problem, summary and string.format("SIM session %d: %s", common.session, summary)
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
