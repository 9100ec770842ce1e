-- The wrk script of bench/load: the requests are composed beforehand from the file TARGETS, and chosen at random.
local requests = {}

function init()
    wrk.headers["X-Api-Key"] = os.getenv("KEY")
    for target in io.lines(os.getenv("TARGETS")) do
        requests[#requests + 1] = wrk.format("GET", target)
    end
    math.randomseed(1)
end

function request()
    return requests[math.random(#requests)]
end

-- The whole response counts as body: wrk does not separate heads from bodies. It does not report its processor time.
function done(summary, latency)
    local seconds = summary.duration / 1e6
    local e = summary.errors
    io.write(string.format(
        "RESULT requests %d errors %d seconds %.3f rate %.0f p50_us %d p99_us %d cpu_us 0 body_bytes %d\n",
        summary.requests, e.connect + e.read + e.write + e.status + e.timeout, seconds, summary.requests / seconds,
        latency:percentile(50), latency:percentile(99), summary.bytes))
end
