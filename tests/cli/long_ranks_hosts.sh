#!/usr/bin/env bash
# Ranks on two hosts with TCP between them: two network namespaces with a cable, each with a name of
# its own.  They train the same model as one process.  If the process of one host is killed, the job
# ends with a line that names the rank, and the next start resumes.
set -euo pipefail
: "${KVSHIFT:?names the command to test}"
. "$(dirname "$0")/mpirun.bash"

first=kvshift-$$-a second=kvshift-$$-b
if ! command -v ip >/dev/null || ! command -v unshare >/dev/null; then
    echo "SKIPPED: no ip or unshare here (Debian: iproute2, util-linux)"
    exit 77
fi
if ! ip netns add "$first" 2>/dev/null; then
    echo "SKIPPED: this user may not make network namespaces"
    exit 77
fi

work=$(mktemp -d)
clean_up() {
    ip netns del "$first" 2>/dev/null || true
    ip netns del "$second" 2>/dev/null || true
    rm -rf "$work"
}
trap clean_up EXIT
cd "$work"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# ---- the hosts ----

ip netns add "$second"
if ! ip -n "$first" link add cable type veth peer name cable netns "$second" 2>err; then
    echo "SKIPPED: no virtual network devices here: $(cat err)"
    exit 77
fi
number=1
for host in "$first" "$second"; do
    ip -n "$host" addr add "10.77.0.$number/24" dev cable
    ip -n "$host" link set cable up
    ip -n "$host" link set lo up
    number=$((number + 1))
done

# on_host NAME COMMAND...: runs a command in the host's namespace with its host name.
cat >on_host <<'END'
#!/usr/bin/env bash
name=$1
shift
exec ip netns exec "$name" unshare --uts sh -c 'hostname "$1"; shift; exec "$@"' sh "$name" "$@"
END
# mpirun calls this instead of ssh, with an address and a command line.
cat >agent <<END
#!/usr/bin/env bash
shift
exec "$work/on_host" "$second" sh -c "\$*"
END
chmod +x on_host agent

on_two_hosts() { # COMMAND...
    timeout --kill-after 10 300 ./on_host "$first" mpirun --mca plm_rsh_agent "$work/agent" \
        --mca btl tcp,self --mca oob_tcp_if_include cable --mca btl_tcp_if_include cable \
        --host 10.77.0.1:1,10.77.0.2:1 -np 2 "$@"
}

sent() { # HOST: bytes that its end of the cable has sent
    ip -n "$1" -s -j link show cable | sed 's/.*"tx":{"bytes":\([0-9]*\).*/\1/'
}

# ---- the same as one process, over the cable ----

run=("$KVSHIFT" train --dim 64 --heads 2 --layers 2 --vocab 64 --pool 32 --max-length 32 --batch 24
    --eval-sequences 24 --steps 60 --checkpoint-every 5 --deterministic --shard gradients --quiet)
"${run[@]}" --out whole >out

on_two_hosts "${run[@]}" --dry-run >out 2>err || fail "no two hosts: $(cat err)"
grep -q "^  rank 0 *$first, " out && grep -q "^  rank 1 *$second, " out || fail "map: $(cat out)"
before=$(sent "$second")
on_two_hosts "${run[@]}" --out "$work/two" >out 2>err || fail "$(cat err)"
cmp whole/model.safetensors two/model.safetensors || fail "two hosts: different bits"
(($(sent "$second") - before > 60 * 100000)) || fail "no data was sent over the cable"

# ---- one host dies ----

steps() { if [[ -e killed/train.jsonl ]]; then wc -l <killed/train.jsonl; else echo 0; fi; }
code=0
on_two_hosts "${run[@]}" --steps 100000 --out "$work/killed" >out 2>err &
job=$!
started=$SECONDS
while (($(steps) < 12)); do
    kill -0 $job 2>/dev/null || fail "the job ended by itself: $(cat err)"
    ((SECONDS - started < 200)) || fail "no steps in 200 s"
    sleep 0.05
done
victim=
for process in $(ip netns pids "$second"); do
    if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx 'OMPI_COMM_WORLD_RANK=1'; then
        victim=$process
    fi
done
[[ -n $victim ]] || fail "rank 1 is not on its host"
kill -KILL "$victim"
started=$SECONDS
wait $job || code=$?
[[ $code != 0 ]] || fail "the job reports success"
((SECONDS - started <= 60)) || fail "the job took $((SECONDS - started)) s to end"
grep -Eq 'rank 1 .*(signal 9|Killed)' err || fail "no line names rank 1: $(cat err)"
[[ -z $(ip netns pids "$first") ]] || fail "processes are left: $(ip netns pids "$first")"
"$KVSHIFT" inspect --check killed/ckpt/latest >out || fail "damaged: $(cat out)"
on_two_hosts "${run[@]}" --resume auto --out "$work/killed" >out 2>err || fail "$(cat err)"
cmp whole/model.safetensors killed/model.safetensors || fail "resumed: different bits"
