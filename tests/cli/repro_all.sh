#!/usr/bin/env bash
# Every experiment at scale smoke, and one page with all of them.
set -euo pipefail
. "$(dirname "$0")/begin.bash"

"$KVSHIFT" repro list --json >list.json
mapfile -t names < <(sed -n 's/^    "name": "\(.*\)",$/\1/p' list.json)
[[ ${#names[@]} -ge 12 ]] || fail "only ${#names[@]} experiments: $(cat list.json)"

for name in "${names[@]}"; do
    started=$SECONDS
    "$KVSHIFT" repro "$name" --scale smoke --out "done/$name" --quiet >out 2>err ||
        fail "$name: $(cat err)"
    grep -Eq '^(reproduced|not reproduced|not at this scale) ' out ||
        fail "$name prints: $(cat out)"
    for file in results.json experiment.json page.html page.md; do
        [[ -s done/$name/$file ]] || fail "$name has no $file"
    done
    for key in claim paper ours stderr seeds verdict; do
        grep -q "\"$key\": " "done/$name/results.json" || fail "$name: results.json lacks '$key'"
    done
    ls "done/$name"/*.csv >/dev/null || fail "$name has no CSV"
    if command -v gnuplot >/dev/null; then
        ls "done/$name"/*.svg >/dev/null || fail "$name has no SVG"
        grep -q '</svg>' "done/$name/page.html" || fail "$name has no figure in its page"
        [[ ! -s err ]] || fail "$name prints: $(cat err)"
    fi
    echo "$name: $((SECONDS - started)) s"
done

"$KVSHIFT" repro report "done" --markdown done/README.md >out
grep -q "^${#names[@]} experiments: done/report.html, done/README.md$" out || fail "$(cat out)"
for name in "${names[@]}"; do
    grep -q "<h2>$name</h2>" done/report.html || fail "the report lacks $name"
    grep -qF "| [$name]($name/README.md), " done/README.md || fail "the summary lacks $name"
done
if grep -Eq '<(script|link|img)|https?://' <(grep -v 'www.w3.org' done/report.html); then
    fail "the report loads external files"
fi
