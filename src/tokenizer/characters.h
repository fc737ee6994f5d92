/* tokenizer/characters.h - classes of characters, and the characters of byte-level vocabularies.
 *
 * KVSI_NO_CHARACTER (base/utf8.h) belongs to no class. */
#ifndef KVSI_TOKENIZER_CHARACTERS_H
#define KVSI_TOKENIZER_CHARACTERS_H

#include <stdint.h>

int kvsi_is_space(uint32_t code);        /* Unicode's White_Space */
int kvsi_is_python_space(uint32_t code); /* what Python strips: also U+001C to U+001F */
int kvsi_is_letter(uint32_t code);       /* categories L* */
int kvsi_is_numeric(uint32_t code);      /* categories N* */
int kvsi_is_decimal(uint32_t code);      /* category Nd: digits of any script */
int kvsi_is_punctuation(uint32_t code);  /* ASCII's, and categories P* */
int kvsi_is_printable(uint32_t code);    /* Python's repr() shows it as it is */
int kvsi_is_word(uint32_t code);         /* close to \w: L*, M*, Nd, Nl, Pc */

/* The character in the other case, or itself; mappings to several characters are not made. */
uint32_t kvsi_to_lower(uint32_t code);
uint32_t kvsi_to_title(uint32_t code);
int kvsi_is_cased(uint32_t code);          /* an upper, lower or title case letter */
int kvsi_is_case_ignorable(uint32_t code); /* close to Case_Ignorable: Mn, Me, Cf, Lm, Sk, ... */

/* ---- byte-level vocabularies represent each byte by a printable character ---- */

uint32_t kvsi_byte_character(unsigned char byte);
int kvsi_character_byte(uint32_t code); /* -1: represents no byte */
/* The 256 bytes in the order of GPT-2's vocabulary: first those represented by themselves. */
void kvsi_byte_order(unsigned char order[256]);

#endif
