# shellcheck shell=bash
# The servers that bench/run measures: how each is started, and its ports by route. Needs lib.sh.
#
#   baseline       the same card for every id and link, the same page for every page, without parsing the request
#   baseline-cold  a random one of all cards or pages: the same bytes as channeld sends, from memory that is as cold
#   nginx-return   nginx sending the baseline's card from its configuration, and the baseline's page from an open file
#   nginx-lua      nginx with Lua over Redis
#   fastify        Fastify with ioredis
#   baseline-redis the Redis commands of channeld, the fields sent as they come (by-id only)
#   channeld       with a cache that holds everything
#   channeld-64M   with the cache's default size, which the 100,000 cards do not fit into
#   channeld-0     without a cache
all_servers=(baseline baseline-cold nginx-return nginx-lua fastify baseline-redis channeld channeld-64M channeld-0)
all_routes=(by-id by-link list same-id)

# same-id is for servers with the card in the processor's cache: it removes the cost of memory latency, which nginx never has.
serves() { # SERVER ROUTE
    case $1 in
        baseline-redis) [[ $2 == by-id ]] ;;
        baseline | nginx-return | channeld) true ;;
        *) [[ $2 != same-id ]] ;;
    esac
}

port_for() { # SERVER ROUTE
    case $1-$2 in
        baseline-redis-*) echo "${port_of[$1]}" ;;
        baseline*-list) echo "${port_of[$1-page]}" ;;
        baseline*) echo "${port_of[$1-card]}" ;;
        *) echo "${port_of[$1]}" ;;
    esac
}

pid_for() { # SERVER ROUTE
    case $1-$2 in
        baseline-redis-*) echo "${pid_of[$1]}" ;;
        baseline*-list) echo "${pid_of[$1-page]}" ;;
        baseline*) echo "${pid_of[$1-card]}" ;;
        *) echo "${pid_of[$1]}" ;;
    esac
}

need_nginx() { [[ -x /usr/sbin/nginx ]] || need nginx; } # it is not in every user's PATH

# Fails when a program or file for the servers is missing, before anything is prepared.
need_for() { # SERVER...
    local server file
    for server in "$@"; do
        case $server in
            baseline | baseline-cold | baseline-redis | channeld | channeld-64M | channeld-0) ;;
            nginx-return) need_nginx ;;
            nginx-lua)
                need_nginx
                need node
                for file in /usr/lib/nginx/modules/ngx_http_lua_module.so /usr/share/lua/5.1/nginx/{redis,string}.lua; do
                    [[ -e $file ]] || die "nginx-lua lacks $file; bench/setup installs it"
                done
                ;;
            fastify)
                need node
                [[ -d $bench/peers/fastify/node_modules ]] || die "fastify is not installed; bench/setup does it"
                ;;
            *) die "no server is called $server; there are ${all_servers[*]}" ;;
        esac
    done
}

# The line of a file whose first word is the median of all.
median_line() { LC_ALL=C sort -n "$1" | awk '{ line[NR] = $0 } END { print line[int((NR + 1) / 2)] }'; }

# Saves whole responses of channeld, as they come over the wire: one after the other to FILE, their sizes to FILE.sizes,
# for each line of TARGETS.
capture() { # PORT TARGETS FILE
    { echo "header = \"X-Api-Key: $key\""; sed "s|.*|url = \"http://127.0.0.1:$1&\"|" "$2"; } >"$tmp/capture.conf"
    curl -sSi --globoff -K "$tmp/capture.conf" -w '%{stderr}%{size_download}\n' >"$3" 2>"$3.sizes"
}

# The responses for the baselines: all cards and pages, and one of each that has the median length.
capture_responses() {
    say "capturing channeld's responses"
    start_channeld capture "$server_core" default 1
    local port=${port_of[capture]} kind target
    for kind in by-id list; do
        capture "$port" "$tmp/$kind" "$tmp/$kind.responses"
        # Without a dollar sign, which would begin a variable in nginx' configuration.
        paste -d ' ' "$tmp/$kind.responses.sizes" "$tmp/$kind" >"$tmp/sized"
        if [[ $kind == by-id ]]; then
            paste -d ' ' "$tmp/sized" "$tmp/samples.ndjson" | grep -vF '$' | cut -d ' ' -f 1,2 >"$tmp/sized.plain"
            mv "$tmp/sized.plain" "$tmp/sized"
        fi
        read -r _ target < <(median_line "$tmp/sized")
        response_to "$target" "$port" >"$tmp/$kind.response"
        [[ $kind != by-id ]] || echo "$target" >"$tmp/same-id"
        sed '1,/^\r$/d' "$tmp/$kind.response" >"$tmp/$kind.json"
    done
    stop capture
}

start_baseline() { # SERVER CARD PAGE
    assign_port "$1-card"
    start "$1-card" "$server_core" "$tools/baseline" "${port_of[$1-card]}" "$2"
    assign_port "$1-page"
    start "$1-page" "$server_core" "$tools/baseline" "${port_of[$1-page]}" "$3"
    wait_for_port "$1-card"
    wait_for_port "$1-page"
}

start_nginx() { # NAME
    local text card dir=$tmp/$1.d
    assign_port "$1"
    mkdir "$dir"
    card=$(<"$tmp/by-id.json")
    card=${card//\\/\\\\}
    card=${card//\'/\\\'}
    cp "$tmp/list.json" "$dir/page.json"
    text=$(<"$bench/peers/$1.conf")
    text=${text//@USER@/"$(id -un)"}
    text=${text//@DIR@/"$dir"}
    text=${text//@BENCH@/"$bench"}
    text=${text//@PORT@/"${port_of[$1]}"}
    text=${text//@REDIS_PORT@/"${port_of[redis]}"}
    text=${text//@CARD@/"$card"}
    printf '%s\n' "$text" >"$dir/nginx.conf"
    start "$1" "$server_core" "$(command -v nginx || echo /usr/sbin/nginx)" -p "$dir" -c "$dir/nginx.conf"
    wait_for_port "$1"
}

start_fastify() {
    assign_port fastify
    NODE_ENV=production start fastify "$server_core" node "$bench/peers/fastify/index.js" "${port_of[fastify]}" \
        "${port_of[redis]}"
    wait_for_port fastify
}

start_baseline_redis() {
    assign_port baseline-redis
    start baseline-redis "$server_core" "$tools/baseline_redis" "${port_of[baseline-redis]}" "${port_of[redis]}" "$digest"
    wait_for_port baseline-redis
}

start_server() {
    case $1 in
        baseline) start_baseline baseline "$tmp/by-id.response" "$tmp/list.response" ;;
        baseline-cold) start_baseline baseline-cold "$tmp/by-id.responses" "$tmp/list.responses" ;;
        nginx-return | nginx-lua) start_nginx "$1" ;;
        fastify) start_fastify ;;
        baseline-redis) start_baseline_redis ;;
        channeld) start_channeld channeld "$server_core" 512MiB 1 ;;
        channeld-64M) start_channeld channeld-64M "$server_core" 64MiB 1 ;;
        channeld-0) start_channeld channeld-0 "$server_core" 0 1 ;;
    esac
}

# A peer whose responses differ from channeld's would be measured in vain.
check_peers() { # SERVERS...
    start_channeld check "$server_core" default 1
    local name
    for name in "$@"; do
        case $name in
            nginx-lua | fastify)
                node "$bench/peers/check.js" "${port_of[check]}" "${port_of[$name]}" "$key" "$tmp/by-id" \
                    "$tmp/by-link" "$tmp/list" || die "the responses of $name differ from channeld's"
                ;;
            nginx-return)
                curl -sS "http://127.0.0.1:${port_of[$name]}/api/channel/by-id/1/" | cmp - "$tmp/by-id.json"
                curl -sS "http://127.0.0.1:${port_of[$name]}/api/channels/" | cmp - "$tmp/list.json"
                ;;
        esac
    done
    stop check
}
