/* eval/python_text.h - what Python makes of text: strip, capitalize, json.dumps.
 *
 * Texts are valid UTF-8. */
#ifndef KVSI_EVAL_PYTHON_TEXT_H
#define KVSI_EVAL_PYTHON_TEXT_H

#include "base/json.h"
#include "base/text.h"

typedef struct kvsi_text_part { /* a part of a text, without a NUL at its end */
    const char *text;
    size_t size;
} kvsi_text_part;

/* text.strip() */
kvsi_text_part kvsi_python_strip(const char *text, size_t size);
/* len(text): the number of code points. */
size_t kvsi_python_length(const char *text, size_t size);
/* Appends text.capitalize(): the first character in title case, all others in lower case. */
void kvsi_python_capitalize(kvsi_text *out, const char *text, size_t size);
/* Appends json.dumps(value, indent=2, ensure_ascii=False). */
void kvsi_python_json(kvsi_text *out, const json_t *value);
/* Appends repr(value): the shortest digits that give the same double. */
void kvsi_python_float(kvsi_text *out, double value);

#endif
