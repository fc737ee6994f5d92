/* tokenizer/character_map.h - SentencePiece's table of characters and what they become.
 *
 *   the trie's size in bytes (u32), the trie (a double array of u32), texts that end in NUL
 *
 * At each place of a text the longest string that the trie has is replaced by its text.  In JSON
 * the table is base64. */
#ifndef KVSI_TOKENIZER_CHARACTER_MAP_H
#define KVSI_TOKENIZER_CHARACTER_MAP_H

#include "base/text.h"
#include "tokenizer/trie.h"

/* KVS_E_FORMAT if the parts do not fit; what is between them is checked as it is used. */
kvs_status kvsi_character_map_check(const char *map, size_t size, kvs_err *err);
/* Appends the text, mapped; strings of `keep` (may be NULL) stay as they are. */
void kvsi_character_map_apply(const char *map, size_t map_size, const kvsi_trie *keep,
                              kvsi_text *out, const char *text, size_t size);

void kvsi_base64_encode(kvsi_text *out, const char *data, size_t size);
/* 0: no base64. */
int kvsi_base64_decode(kvsi_text *out, const char *text);

#endif
