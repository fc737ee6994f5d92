# Links of a guide to other guides, seen from build/reference.
s|](\([a-z-]*\.md[^)]*\))|](../../docs/\1)|g
