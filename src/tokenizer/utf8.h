/* tokenizer/utf8.h - text as characters, and what kind they are.
 *
 * Text may hold any bytes.  A byte that is no part of a valid character stands for itself: it has
 * the code KVSI_NO_CHARACTER and belongs to no class. */
#ifndef KVSI_TOKENIZER_UTF8_H
#define KVSI_TOKENIZER_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define KVSI_NO_CHARACTER UINT32_MAX

/* The character at the start of a text that is not empty; returns its bytes, 1 if there is none. */
size_t kvsi_utf8_next(const char *text, size_t size, uint32_t *code);
/* The same for the end of the text. */
size_t kvsi_utf8_last(const char *text, size_t size, uint32_t *code);
/* Bytes from the start that are valid. */
size_t kvsi_utf8_valid(const char *text, size_t size);
/* Bytes from the start without a character at the end that may be going on in what follows. */
size_t kvsi_utf8_complete(const char *text, size_t size);
/* Writes a character and returns its bytes. */
size_t kvsi_utf8_put(char out[4], uint32_t code);

int kvsi_is_space(uint32_t code);       /* Unicode's White_Space */
int kvsi_is_numeric(uint32_t code);     /* categories N* */
int kvsi_is_punctuation(uint32_t code); /* ASCII's, and categories P* */
int kvsi_is_word(uint32_t code); /* what \w matches, to a good likeness: L*, M*, Nd, Nl, Pc */

/* ---- byte-level vocabularies: every byte has a printable character that stands for it ---- */

uint32_t kvsi_byte_character(unsigned char byte);
int kvsi_character_byte(uint32_t code); /* -1: stands for no byte */
/* The 256 bytes in the order of GPT-2's vocabulary: those that stand for themselves first. */
void kvsi_byte_order(unsigned char order[256]);

#endif
