# shellcheck shell=bash
# Shared by the benchmarks: their programs, a private Redis with sample channels, servers pinned to a core, and statistics
# of processes from /proc. Everything that was started with these functions ends with the script.

bench=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$bench")
tools=${BENCH_TOOLS:-$root/build/bench}
programs=${BENCH_PROGRAMS:-$root/build/release}

# Two cores are enough: one for the measured server, the other for the load generator and Redis.
server_core=${BENCH_SERVER_CORE:-0}
other_core=${BENCH_OTHER_CORE:-1}

say() { printf '%s\n' "$*" >&2; }
die() { say "${0##*/}: $*"; exit 1; }

# The comment at the top of the script.
help() { sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//p}' "$0"; }

usage() {
    help >&2
    exit 2
}

# Handled here, since this file is sourced with the arguments of the script.
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    help
    exit 0
fi

need() {
    local program
    for program in "$@"; do
        command -v "$program" >/dev/null || die "$program is missing; bench/setup installs it"
    done
}

# --- Beginning and ending --------------------------------------------------------------------------------------------

declare -A pid_of port_of

# The output is shown only when the build fails.
build_tools() {
    local log
    log=$(cmake -S "$bench" -B "$tools" 2>&1 && cmake --build "$tools" 2>&1) ||
        { say "$log"; die "the programs of the benchmarks cannot be built"; }
}

begin() {
    ulimit -n "$(ulimit -Hn)"
    tmp=$(mktemp -d)
    trap end EXIT
    trap 'exit 130' INT TERM
    need cmake redis-server redis-cli curl taskset
    build_tools
    [[ -x $programs/channeld ]] || die "no channeld in $programs; build it with: cmake --build --preset release"
}

end() {
    trap - EXIT
    local name
    for name in "${!pid_of[@]}"; do
        stop "$name"
    done
    rm -rf "$tmp"
}

# start NAME CORE COMMAND...: in the background, pinned; its output goes to $tmp/NAME.log.
start() {
    local name=$1 core=$2
    shift 2
    taskset -c "$core" "$@" >"$tmp/$name.log" 2>&1 </dev/null &
    pid_of[$name]=$!
}

stop() {
    local pid=${pid_of[$1]:-}
    unset "pid_of[$1]"
    [[ -n $pid ]] || return 0
    kill "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || true
}

# until_true NAME COMMAND...: waits until the command succeeds, for at most 60 seconds (valgrind is slow), and no longer
# than NAME runs.
until_true() {
    local i pid=${pid_of[$1]}
    shift
    for ((i = 0; i < 1200; i++)); do
        "$@" >/dev/null 2>&1 && return
        kill -0 "$pid" 2>/dev/null || return 1
        sleep 0.05
    done
    return 1
}

port_is_open() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

wait_for_port() { # of NAME
    until_true "$1" port_is_open "${port_of[$1]}" || die "$1 did not start: $(tail -n 5 "$tmp/$1.log")"
}

# Assigns NAME a port below the ephemeral ones.
last_port=$((20000 + $$ % 10000))
assign_port() {
    last_port=$((last_port + 1))
    while port_is_open $last_port; do
        last_port=$((last_port + 1))
    done
    port_of[$1]=$last_port
}

# --- Redis and the sample channels -----------------------------------------------------------------------------------

start_redis() {
    assign_port redis
    start redis "$other_core" redis-server --port "${port_of[redis]}" --bind 127.0.0.1 --save '' --appendonly no \
        --dir "$tmp" --hash-max-listpack-value 1024
    wait_for_port redis
    export CHANNELD_REDIS_URL=redis://127.0.0.1:${port_of[redis]}/0
    export CHANNELD_MAX_CONNECTION_AGE=0 # the load generators keep their connections
}

# Loads COUNT channels, issues $key and writes the targets: $tmp/by-id, $tmp/by-link, $tmp/list.
load_samples() {
    say "loading $1 sample channels"
    "$programs/channelctl" sample "$1" >"$tmp/samples.ndjson"
    "$programs/channelctl" load "$tmp/samples.ndjson" >"$tmp/load.log" 2>&1 || die "$(cat "$tmp/load.log")"
    key=$("$programs/channelctl" keys issue)
    digest=$(printf %s "$key" | sha256sum | cut -d ' ' -f 1)
    LC_ALL=C awk -F '"' -v ids="$tmp/by-id" -v links="$tmp/by-link" '
        { id = $3; gsub(/[:,]/, "", id); print "/api/channel/by-id/" id "/" >ids }
        match($0, /"link":"[^"]*","category/) {
            print "/api/channel/by-link/?link=" substr($0, RSTART + 8, RLENGTH - 19) >links
        }' "$tmp/samples.ndjson"
    seq -f '/api/channels/?page=%.0f' 1 $((($1 + 99) / 100)) >"$tmp/list"
}

# --- channeld --------------------------------------------------------------------------------------------------------

has_setting() { grep -qE "^ +--$1( |\$)" <<<"$("$programs/channeld" --help)"; } # whole: grep stops reading early

# channeld_command NAME CACHE WORKERS [SETTINGS...]: sets $command. CACHE: default, or a value of --cache-size.
# There is no load balancer, so no drain delay is needed.
channeld_command() {
    local name=$1 cache=$2 workers=$3
    shift 3
    assign_port "$name"
    assign_port "$name-admin"
    command=("$programs/channeld" --listen "127.0.0.1:${port_of[$name]}" --workers "$workers" --drain-delay 0s
        --admin-listen "127.0.0.1:${port_of[$name-admin]}" --max-connections 15000 --idle-timeout 3600s "$@")
    if [[ $cache != default ]]; then
        if has_setting cache-size; then
            command+=(--cache-size "$cache")
        else
            say "this channeld has no --cache-size; it runs without"
        fi
    fi
}

wait_for_channeld() {
    until_true "$1" curl -fsS "http://127.0.0.1:${port_of[$1-admin]}/readyz" ||
        die "$1 did not start: $(tail -n 5 "$tmp/$1.log")"
}

# start_channeld NAME CORES CACHE WORKERS [SETTINGS...]
start_channeld() {
    local name=$1 cores=$2
    shift 2
    channeld_command "$name" "$@"
    start "$name" "$cores" "${command[@]}"
    wait_for_channeld "$name"
}

# sweep NAME TARGETS: requests each target once, so that it is cached.
sweep() {
    "$tools/loadgen" --port "${port_of[$1]}" --key "$key" --targets "$2" --connections 16 --sweep
}

# response_to TARGET PORT: the response as it comes over the wire.
response_to() { curl -sSi -H "X-Api-Key: $key" "http://127.0.0.1:$2$1"; }

# --- Statistics ---------------------------------------------------------------------------------------------------------

# value NAME LINE: of a line of NAME VALUE pairs.
value() { awk -v name="$1" '{ for (i = 1; i < NF; i += 2) if ($i == name) print $(i + 1) }' <<<"$2"; }

# User and system time of the process and its children so far, in microseconds. The kernel scales the two so that their
# sum is what the scheduler measured; the ticks only divide that sum.
cpu_of() {
    local pid total=0 stat
    local -a field
    for pid in "$1" $(pgrep -P "$1" || true); do
        stat=$(<"/proc/$pid/stat")
        read -ra field <<<"${stat##*) }"
        total=$((total + field[11] + field[12]))
    done
    echo $((total * 1000000 / $(getconf CLK_TCK)))
}

# memory_of PID FIELD: from smaps_rollup, in bytes.
memory_of() { awk -v field="$2:" '$1 == field { print $2 * 1024 }' "/proc/$1/smaps_rollup"; }

median() {
    sort -g | awk '{ v[NR] = $1 } END { print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2 }'
}

calc() { awk "BEGIN { printf \"${2:-%.2f}\", $1 }"; }

machine() {
    printf '%s, %s cores, Linux %s, %s\n' "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" \
        "$(uname -r | cut -d- -f1)" "$(date -u +%Y-%m-%d)"
}
