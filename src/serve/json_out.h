/* serve/json_out.h - appends JSON to text.  Answers may have millions of numbers, so they are
 * written without building values. */
#ifndef KVSI_SERVE_JSON_OUT_H
#define KVSI_SERVE_JSON_OUT_H

#include "base/text.h"

/* A string of any bytes; those that are not UTF-8 become U+FFFD. */
void kvsi_json_add_string(kvsi_text *out, const char *bytes, size_t size);
/* The same for text that ends with NUL; null for NULL. */
void kvsi_json_add_text(kvsi_text *out, const char *text);
/* A number with all its digits; -9999.0 stands for -infinity and NaN, as clients expect. */
void kvsi_json_add_logprob(kvsi_text *out, double value);
void kvsi_json_add_ids(kvsi_text *out, const int32_t *ids, size_t count);

#endif
