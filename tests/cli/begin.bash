# What scripts that test the command begin with: a folder of their own, which goes when they end, and
# `fail`.  `here` is the folder of the scripts.
: "${KVSHIFT:?names the command to test}"

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
