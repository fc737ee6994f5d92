#!/usr/bin/env bash
# kvshift serve: starts that fail, and everything that clients can do.
set -euo pipefail
. "$(dirname "$0")/begin.bash"
command -v python3 >/dev/null || { echo "skipped: no python3 for the clients"; exit 77; }
. "$here/serve.bash"

refused() { # CODE TEXT ARGUMENT...
    local code=0
    timeout 20 "$KVSHIFT" serve "${@:3}" >out 2>err </dev/null || code=$?
    [[ $code == "$1" && $(wc -l <err) == 1 && ! -s out ]] || fail "'${*:3}' exits $code: $(cat err)"
    grep -qF -- "$2" err || fail "'${*:3}' prints: $(cat err)"
}
: >empty
printf 'a b\n' >blank
refused 2 "'--model' (-m) is required"
refused 1 "nowhere" -m nowhere
refused 2 "needs --api-key-file" -m run --template raw --host 0.0.0.0
refused 2 "needs --api-key-file" -m run --template raw --host ::
refused 2 "needs --api-key-file" -m run --template raw --host 127.example.com
refused 1 "cannot open 'nokeys'" -m run --template raw --api-key-file nokeys
refused 2 "'empty' has no key" -m run --template raw --api-key-file empty
refused 2 "'blank': key 1 has a blank" -m run --template raw --api-key-file blank
refused 2 "option '--ctx' is 2000" -m run --ctx 2000
printf 'key\n' >key
refused 1 "cannot find the address of host 'no host'" -m run --template raw --host 'no host' \
    --api-key-file key
python3 -c "
import socket, subprocess, sys
s = socket.create_server(('127.0.0.1', 0))
r = subprocess.run([sys.argv[1], 'serve', '-m', 'run', '--template', 'raw', '--port',
                    str(s.getsockname()[1])], capture_output=True, text=True, timeout=20)
assert r.returncode == 1 and 'Address already in use' in r.stderr and r.stderr.count('\n') == 1, r
" "$KVSHIFT" || fail "a port that is in use"

python3 "$here/../serve/serve_check.py" "$KVSHIFT" run

# The examples of docs/serving.md.
"$KVSHIFT" serve -m run --template raw --port 0 2>err &
server=$!
trap 'kill "$server" 2>/dev/null || true; rm -rf "$work"' EXIT
for _ in $(seq 200); do
    grep -q serving err && break
    sleep 0.05
done
port=$(sed -nE 's/.*:([0-9]+)$/\1/p' err)
count=0
if command -v curl >/dev/null; then
    while IFS= read -r line <&3; do
        eval "${line//localhost:8080/localhost:$port} --fail --silent --show-error" >out ||
            fail "'$line' fails"
        grep -qE '"(choices|tokens)"' out || fail "'$line' gives: $(cat out)"
        count=$((count + 1))
    done 3< <(sed -n 's/^    curl /curl /p' "$here/../../docs/serving.md")
    [[ $count -ge 5 ]] || fail "docs/serving.md has $count examples"
fi
kill -INT "$server"
wait "$server" || fail "the exit code after SIGINT is not 0"
