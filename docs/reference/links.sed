# Links of a guide to other guides, seen from build/reference.
s|\[\([^]]*\)\](\([a-z-]*\.md[^)]*\))|<a href="../../docs/\2">\1</a>|g
