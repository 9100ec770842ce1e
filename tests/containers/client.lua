-- wrk's script in tests/containers/availability: requests the paths in the file that is its argument, one after the other.
-- Its last line has the rate and the failures: responses of 400 and above, and connection errors.
local requests = {}
local at = 0

function init(args)
    for path in io.lines(args[1]) do
        requests[#requests + 1] = wrk.format("GET", path)
    end
end

function request()
    at = at % #requests + 1
    return requests[at]
end

function done(summary)
    local e = summary.errors
    print(string.format("requests %d rate %.0f failed %d (status %d connect %d read %d write %d timeout %d)",
        summary.requests, summary.requests * 1e6 / summary.duration,
        e.status + e.connect + e.read + e.write + e.timeout, e.status, e.connect, e.read, e.write, e.timeout))
end
