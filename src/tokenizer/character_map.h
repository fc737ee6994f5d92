/* tokenizer/character_map.h - SentencePiece's precompiled character map.
 *
 *   u32 size of the trie in bytes | trie (double array of u32) | NUL-terminated replacements
 *
 * At each position the longest key of the trie is replaced.  In JSON the map is base64. */
#ifndef KVSI_TOKENIZER_CHARACTER_MAP_H
#define KVSI_TOKENIZER_CHARACTER_MAP_H

#include "base/text.h"
#include "tokenizer/trie.h"

/* KVS_E_FORMAT if the sizes do not fit.  Offsets inside are checked when the map is applied. */
kvs_status kvsi_character_map_check(const char *map, size_t size, kvs_err *err);
/* Appends the mapped text.  Strings of `keep` (may be NULL) are not replaced. */
void kvsi_character_map_apply(const char *map, size_t map_size, const kvsi_trie *keep,
                              kvsi_text *out, const char *text, size_t size);

void kvsi_base64_encode(kvsi_text *out, const char *data, size_t size);
/* Returns 0 if the text is not valid base64. */
int kvsi_base64_decode(kvsi_text *out, const char *text);

#endif
