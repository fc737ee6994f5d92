/* eval/rewrite.h - replacing parts of a text, in time linear in its length.
 *
 *     kvsi_rewrite r = {0};
 *     kvsi_rewrite_start(&r, text, size);
 *     kvsi_replace(&r, "tfrac", "frac");
 *     ... r.text.data ...
 *     TRY_OUT(kvsi_text_check(&r.text, err));     one check for all steps
 * out:
 *     kvsi_rewrite_release(&r);
 *
 * A step that is not in this header reads r.text, writes r.spare between kvsi_rewrite_begin and
 * kvsi_rewrite_end, and skips both if kvsi_rewrite_begin returns 0. */
#ifndef KVSI_EVAL_REWRITE_H
#define KVSI_EVAL_REWRITE_H

#include "base/text.h"

typedef struct kvsi_rewrite {
    kvsi_text text, spare; /* the text so far; what a step writes */
} kvsi_rewrite;

void kvsi_rewrite_start(kvsi_rewrite *r, const char *text, size_t size);
void kvsi_rewrite_release(kvsi_rewrite *r);

/* Empties r->spare; returns 0 if memory has run out. */
int kvsi_rewrite_begin(kvsi_rewrite *r);
/* r->spare becomes the text. */
void kvsi_rewrite_end(kvsi_rewrite *r);

/* Replaces every occurrence from left to right; what was replaced is not read again. */
void kvsi_replace(kvsi_rewrite *r, const char *from, const char *to);
/* Keeps `size` bytes from `start` on. */
void kvsi_keep(kvsi_rewrite *r, size_t start, size_t size);

#endif
