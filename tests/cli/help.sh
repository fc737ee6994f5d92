#!/usr/bin/env bash
# Help, version and errors for mistyped names.
set -euo pipefail
: "${KVSHIFT:?names the command to test}"

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# Runs the command; leaves its exit code in $code, its output in $work/out and $work/err.
run() {
    code=0
    "$KVSHIFT" "$@" >"$work/out" 2>"$work/err" </dev/null || code=$?
}

# refused CODE TEXT ARGUMENT...: exactly one line on standard error, nothing on standard output.
refused() {
    local expected=$1 text=$2
    shift 2
    run "$@"
    [[ $code == "$expected" ]] || fail "'$*' exits $code, expected $expected: $(cat "$work/err")"
    [[ $(wc -l <"$work/err") == 1 ]] || fail "'$*' prints more than one line: $(cat "$work/err")"
    [[ $(cat "$work/err") == "kvshift: "*"$text"* ]] || fail "'$*' prints: $(cat "$work/err")"
    [[ ! -s $work/out ]] || fail "'$*' prints: $(cat "$work/out")"
}

# Help goes to standard output and is the same for all ways to ask for it.
for way in help --help -h; do
    run "$way"
    [[ $code == 0 && ! -s $work/err ]] || fail "'$way' exits $code"
    grep -q '^  train ' "$work/out" || fail "'$way' does not list the commands"
done
for command in train generate score ppl inspect report version; do
    run help "$command"
    [[ $code == 0 ]] || fail "'help $command' exits $code"
    cp "$work/out" "$work/first"
    run "$command" --help
    [[ $code == 0 && ! -s $work/err ]] || fail "'$command --help' exits $code"
    cmp -s "$work/first" "$work/out" || fail "'help $command' and '$command --help' differ"
    grep -q "^usage: kvshift $command" "$work/out" || fail "'$command --help' has no usage"
    ! grep -q '.\{101\}' "$work/out" || fail "'$command --help' has long lines"
done
run
[[ $code == 2 ]] || fail "no command exits $code"
grep -q '^usage: ' "$work/err" || fail "no command prints no usage"

# Defaults are shown and do not depend on other options.
run train --dim 64 --help all
grep -q -- '--dim N .*(default: 128)' "$work/out" || fail "the default of --dim is not shown"
tr -s ' \n' ' ' <"$work/out" | grep -q -- '--shift NAME .*none, k, v, kv, qkv, gate' || fail "no shifts are shown"
grep -q -- '--positions NAME .*rope, alibi, learned, none or relative' "$work/out" || fail "no positions"

# The version, as text and as JSON.
run --version
[[ $code == 0 ]] || fail "--version exits $code"
cp "$work/out" "$work/first"
run version
cmp -s "$work/first" "$work/out" || fail "'version' and '--version' differ"
grep -Eq '^kvshift [0-9]+\.[0-9]+\.[0-9]+ ' "$work/out" || fail "version prints: $(cat "$work/out")"
run version --json
[[ $code == 0 ]] || fail "version --json exits $code"
for key in version commit compiler blas openmp threads cpu_level cpu_levels optional; do
    grep -q "\"$key\": " "$work/out" || fail "version --json lacks '$key'"
done
if command -v python3 >/dev/null; then
    python3 -m json.tool "$work/out" >/dev/null || fail "version --json is not JSON"
fi

# Unknown names: the error suggests the nearest name.
refused 2 "unknown command 'trian'; did you mean 'train'?" trian
refused 2 "unknown command 'zzz'" zzz
refused 2 "did you mean 'report'?" help reprot
refused 2 "unknown option '--layer'; did you mean '--layers'?" train --layer 2
refused 2 "unknown option '--kv_heads'; did you mean '--kv-heads'?" train --kv_heads=2
refused 2 "did you mean '--json'?" version --jsn
refused 2 "unexpected argument 'now'" version now
refused 2 "expected at least 1 RUN" report
refused 2 "expected at least 1 MODEL" inspect
refused 2 "unexpected argument 'b'" inspect a b
refused 2 "did you mean 'inspect'?" inspcet
refused 1 "$work/nowhere" report "$work/nowhere"

# If output cannot be written, the command fails.
if [[ -w /dev/full ]]; then
    code=0
    "$KVSHIFT" version >/dev/full 2>"$work/err" || code=$?
    [[ $code == 1 ]] || fail "a full disk gives exit code $code"
fi
echo "passed"
