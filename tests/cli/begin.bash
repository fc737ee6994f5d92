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

# as_zst FILE: the file, of less than 128 KiB, as a zstd frame of one block that is not compressed.
as_zst() {
    local size block
    size=$(stat -c %s "$1")
    block=$((size << 3 | 1)) # the last one, raw
    printf '\x28\xb5\x2f\xfd\xa0'
    printf "$(printf '\\x%02x' $((size & 255)) $((size >> 8 & 255)) $((size >> 16 & 255)) 0 \
        $((block & 255)) $((block >> 8 & 255)) $((block >> 16 & 255)))"
    cat "$1"
}
