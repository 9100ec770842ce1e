# shellcheck shell=bash
# What the tests of the documents' commands for compose share. It makes a copy of this folder, $tmp/tree, the current folder: its
# containers and volumes, with and without the .env that a test writes there, end with the test. $base is where nginx listens.
# shellcheck disable=SC2317 # a function is called by a trap

tmp=$(mktemp -d)
mkdir "$tmp/tree"
git ls-files -z --cached --others --exclude-standard | tar -c --null -T - | tar -x -C "$tmp/tree"
cd "$tmp/tree" || exit
export CHANNELD_PUBLISH=${CHANNELD_PUBLISH:-127.0.0.1:8080}
base=http://$CHANNELD_PUBLISH

end() {
    docker compose --profile '*' down --volumes >/dev/null 2>&1
    rm -f .env
    docker compose --profile '*' down --volumes >/dev/null 2>&1
    rm -rf "$tmp"
}
trap end EXIT

say() { echo "${0##*/}: $*"; }
die() { say "$*" >&2; exit 1; }

# What the command prints is in $tmp/log.
quietly() { "$@" >"$tmp/log" 2>&1 || { cat "$tmp/log" >&2; die "failed: $*"; }; }

# status KEY [PATH]: of a request with this key
status() { curl -sS -o /dev/null -w '%{http_code}' --max-time 10 -H "X-Api-Key: $1" "$base/api/${2:-channels/}"; }
