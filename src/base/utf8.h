/* base/utf8.h - text as Unicode characters.
 *
 * Text may hold any bytes.  A byte that is not part of a valid character is read as one character
 * with the code KVSI_NO_CHARACTER. */
#ifndef KVSI_BASE_UTF8_H
#define KVSI_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

#define KVSI_NO_CHARACTER UINT32_MAX

/* Reads the first character of a text that is not empty and returns its size in bytes. */
size_t kvsi_utf8_next(const char *text, size_t size, uint32_t *code);
/* The same for the last character. */
size_t kvsi_utf8_last(const char *text, size_t size, uint32_t *code);
/* The number of bytes before the first invalid one. */
size_t kvsi_utf8_valid(const char *text, size_t size);
/* The number of bytes without an incomplete character at the end. */
size_t kvsi_utf8_complete(const char *text, size_t size);
/* Writes a character and returns its size in bytes; 0 if the code is above U+10FFFF. */
size_t kvsi_utf8_put(char out[4], uint32_t code);

#endif
