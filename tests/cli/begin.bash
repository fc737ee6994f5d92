# Sourced by all scripts that test the command: makes a temporary folder, which is removed at exit,
# and defines `fail`.  `here` is the folder of the scripts.
: "${KVSHIFT:?names the command to test}"

here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

# as_zst FILE: prints the file (less than 128 KiB) as a zstd frame with one raw block.
as_zst() {
    local size block
    size=$(stat -c %s "$1")
    block=$((size << 3 | 1)) # last block, raw
    printf '\x28\xb5\x2f\xfd\xa0'
    printf "$(printf '\\x%02x' $((size & 255)) $((size >> 8 & 255)) $((size >> 16 & 255)) 0 \
        $((block & 255)) $((block >> 8 & 255)) $((block >> 16 & 255)))"
    cat "$1"
}
