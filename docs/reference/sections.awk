# Makes a group of Doxygen from each section of a header:
#
#     /* ---- runtime ------ */
#
# Its description is the line of the file comment that begins with the section's name:
#
#     *   runtime             processor code and threads
#
# The blank line after a section is used too, so that lines keep their numbers.
FNR == 1 {
    file = FILENAME
    sub(/.*\//, "", file)
}
!inside && /^ \*   [a-z].*[a-z]  +[^ ]/ {
    line = substr($0, 6)
    match(line, /  +/)
    name = substr(line, 1, RSTART - 1)
    sub(/,.*/, "", name)
    about[name] = substr(line, RSTART + RLENGTH)
}
/^\/\* ---- .* -+ \*\/$/ {
    name = $0
    sub(/^\/\* ---- /, "", name)
    sub(/ -+ \*\/$/, "", name)
    id = file "_" name
    gsub(/[^A-Za-z0-9]/, "_", id)
    printf "%s/** @defgroup %s %s: %s\n", inside ? "/** @} */ " : "", id, file, name
    getline
    printf " * @brief %s. @{ */\n", (name in about) ? about[name] : name
    inside = 1
    next
}
inside && /^#ifdef __cplusplus/ {
    print "/** @} */"
    inside = 0
}
{ print }
