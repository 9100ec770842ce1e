-- The three requests in Lua. As the manual of lua-resty-redis (in Debian: lua-nginx-redis) advises: a connection from
-- nginx' pool, commands that do not depend on each other in one pipeline, and back into the pool.
local cjson = require "cjson"
local redis = require "nginx.redis"
local sha256 = require "nginx.sha256"
local str = require "nginx.string"

local POOL_IDLE_MS, POOL_SIZE, PAGE = 60000, 128, 100
local SUMMARY, CARD, IS_NUMBER

local api = {}

-- Takes the names of the fields from docs/openapi.json.
function api.read_fields(path)
    local file = assert(io.open(path))
    local schemas = cjson.decode(file:read("*a")).components.schemas
    file:close()
    SUMMARY, CARD, IS_NUMBER = schemas.ChannelSummary.required, schemas.Channel.required, {}
    for name, schema in pairs(schemas.Channel.properties) do
        IS_NUMBER[name] = schema.type and schema.type[1] == "integer"
    end
end

local function send(status, value)
    local body = cjson.encode(value)
    ngx.status = status
    ngx.header.content_length = #body
    ngx.print(body)
end

local function fail(status, text)
    send(status, { success = false, error = text })
end

local function connect()
    local r = redis:new()
    r:set_timeout(2000)
    local ok = r:connect("127.0.0.1", api.redis_port)
    return ok and r
end

local function done(r)
    r:set_keepalive(POOL_IDLE_MS, POOL_SIZE)
end

local function key_digest()
    local key = ngx.var.http_x_api_key or ngx.var.arg_api_key or ""
    local digest = sha256:new()
    digest:update(key)
    return str.to_hex(digest:final())
end

local function read_row(values, names)
    local row = {}
    for i = 1, #names do
        local name, value = names[i], values[i]
        if value == ngx.null then
            row[name] = name == "followers_history" and {} or cjson.null
        elseif IS_NUMBER[name] then
            row[name] = tonumber(value)
        elseif name == "followers_history" then
            row[name] = cjson.decode(value)
        else
            row[name] = value
        end
    end
    return row
end

-- Runs the commands that `add` puts into the pipeline together with the check of the key.
local function ask(r, add)
    r:init_pipeline()
    r:sismember("channels:api_keys", key_digest())
    add(r)
    local replies = r:commit_pipeline()
    if not replies then
        fail(500, "Internal server error")
        return nil
    end
    if replies[1] ~= 1 then
        fail(401, "Invalid or missing API key")
        return nil
    end
    return replies
end

local function send_card(values)
    if not values or values[1] == ngx.null then
        return fail(404, "Channel not found")
    end
    send(200, { success = true, data = read_row(values, CARD) })
end

function api.by_id()
    local r = connect()
    if not r then
        return fail(500, "Internal server error")
    end
    local replies = ask(r, function() r:hmget("channels:card:" .. ngx.var.id, unpack(CARD)) end)
    done(r)
    if replies then
        send_card(replies[2])
    end
end

function api.by_link()
    local link = ngx.var.arg_link
    local r = link and connect()
    if not r then
        return fail(link and 500 or 400, "Parameter link is required")
    end
    link = ngx.unescape_uri(link)
    local replies = ask(r, function() r:get("channels:link:" .. link) end)
    local values
    if replies and replies[2] ~= ngx.null then
        values = r:hmget("channels:card:" .. replies[2], unpack(CARD))
    end
    done(r)
    if replies then
        send_card(values)
    end
end

local function read_page(r, ids)
    local count = math.min(#ids, PAGE)
    if count == 0 then
        return {}
    end
    r:init_pipeline(count)
    for i = 1, count do
        r:hmget("channels:card:" .. ids[i], unpack(SUMMARY))
    end
    local rows, data = r:commit_pipeline(), {}
    for i = 1, count do
        data[i] = read_row(rows[i], SUMMARY)
    end
    return data
end

function api.list()
    local page = tonumber(ngx.var.arg_page or 1)
    local r = page and connect()
    if not r then
        return fail(page and 500 or 400, "Parameter page must be a positive integer")
    end
    local first = (page - 1) * PAGE
    local replies = ask(r, function() r:zrange("channels:index", first, first + PAGE) end)
    local data = replies and read_page(r, replies[2])
    done(r)
    if data then
        local pagination = { page = page, per_page = PAGE, count = #data, has_next = #replies[2] > PAGE }
        send(200, { success = true, data = data, pagination = pagination })
    end
end

return api
