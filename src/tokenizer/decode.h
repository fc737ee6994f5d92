/* tokenizer/decode.h - ids to text, as they come.
 *
 * Decoders before Fuse see one piece each, and their text is final at once.  Fuse makes one piece
 * of all: what stands after it waits for the end, but for a Strip at the start (Llama's leading
 * space), which is over as soon as the text has begun.  The result does not depend on how the ids
 * were handed over. */
#ifndef KVSI_TOKENIZER_DECODE_H
#define KVSI_TOKENIZER_DECODE_H

#include "tokenizer/tokenizer.h"

typedef struct kvsi_decoding {
    const kvs_tokenizer *t;
    size_t piece_steps;      /* decoders that work on one piece each; Fuse is next, if any */
    int begun;               /* past what encoding puts in front */
    kvsi_ids held;           /* may be what encoding puts around a text, which is no part of it */
    size_t pieces;           /* decoded */
    size_t stripped;         /* times the Strip after Fuse has taken something */
    int stripping;           /* it may take more */
    kvsi_text piece, spare;  /* one piece on its way through the steps */
    kvsi_text waiting, text; /* fused text that steps are to see whole; the result */
} kvsi_decoding;

void kvsi_decoding_init(kvsi_decoding *d, const kvs_tokenizer *t);
void kvsi_decoding_release(kvsi_decoding *d);
void kvsi_decoding_reset(kvsi_decoding *d); /* forgets all ids and empties the text */
/* Adds to d->text what is certain; an id outside the vocabulary changes nothing. */
kvs_status kvsi_decoding_add(kvsi_decoding *d, const int32_t *ids, size_t count, kvs_err *err);
/* More ids will come: none that are held are at the end. */
kvs_status kvsi_decoding_flush(kvsi_decoding *d, kvs_err *err);
/* Adds what is left. */
kvs_status kvsi_decoding_finish(kvsi_decoding *d, kvs_err *err);

#endif
