# Makes a group of Doxygen from each section of a header:
#
#     /* ---- runtime ------ */
#
# Its description is the line of the file comment that begins with the section's name:
#
#     *   runtime             processor code and threads
#
# These lines become a list of links.
#
# The blank line after a section is used too, so that lines keep their numbers.
FNR == 1 {
    file = FILENAME
    sub(/.*\//, "", file)
}
function group(name) {
    name = file "_" name
    gsub(/[^A-Za-z0-9]/, "_", name)
    return name
}
!inside && /^ \*   [a-z].*[a-z]  +[^ ]/ {
    line = substr($0, 6)
    match(line, /  +/)
    name = substr(line, 1, RSTART - 1)
    text = substr(line, RSTART + RLENGTH)
    title = name
    sub(/,.*/, "", name)
    about[name] = toupper(substr(text, 1, 1)) substr(text, 2)
    printf " * - @ref %s \"%s\": %s\n", group(name), title, text
    next
}
/^\/\* ---- .* -+ \*\/$/ {
    name = $0
    sub(/^\/\* ---- /, "", name)
    sub(/ -+ \*\/$/, "", name)
    printf "%s/** @defgroup %s %s: %s\n", inside ? "/** @} */ " : "", group(name), file, name
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
