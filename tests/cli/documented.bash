# Prints the command lines of kvshift that Markdown files show, one per line, from the word "kvshift" on.
#
# A command line is an indented line that starts with kvshift, perhaps after "$ " and mpirun; a line that ends in
# a backslash continues.  Comments (" # ..."), explanations after two spaces, redirections, pipes, "..." and the
# brackets around optional words are left out.
documented_lines() { # FILE...
    sed -E ':more; /\\$/{N; s/ *\\\n */ /; b more}' "$@" |
        sed -nE 's/^ {4}(\$ )?(mpirun .* )?(build\/)?kvshift /kvshift /p' |
        sed -E -e 's/ #.*//' -e 's/   *[^ ].*//' -e 's/ [|] .*//' -e 's/ [<>] ?[A-Za-z].*//' -e 's/ (\.\.\.|…)//' \
            -e 's/[][]//g'
}

# Prints the command lines with an option that are in backquotes within a sentence.
documented_mentions() { # FILE...
    grep -ohE '`(build/)?kvshift [^`]* -[^`]*`' "$@" | sed -E -e 's/`(build\/)?//g' -e 's/ (\.\.\.|…)//g' -e 's/ [|] .*//' -e 's/ [<>] ?[A-Za-z].*//'
}
