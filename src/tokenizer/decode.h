/* tokenizer/decode.h - incremental conversion of ids to text.
 *
 * Decoders before Fuse work on one piece, so their output is final.  Fuse joins all pieces:
 * decoders after it wait until the end.  The exception is a single Strip at the start (Llama's
 * leading space), which is done once the text has begun.  The result does not depend on how the ids
 * are split over calls. */
#ifndef KVSI_TOKENIZER_DECODE_H
#define KVSI_TOKENIZER_DECODE_H

#include "tokenizer/tokenizer.h"

typedef struct kvsi_decoding {
    const kvs_tokenizer *t;
    kvsi_workspace *workspace; /* taken when a decoder needs it; NULL between calls */
    size_t piece_steps;        /* number of decoders before Fuse */
    int begun;                 /* the template's ids before the text are over */
    kvsi_ids held;   /* ids that may belong to the template around a text, which is not decoded */
    size_t pieces;   /* number of pieces decoded */
    size_t stripped; /* how often the Strip after Fuse has removed its content */
    int stripping;   /* it may remove more */
    kvsi_text piece, spare;  /* a piece between two decoders */
    kvsi_text waiting, text; /* fused text for the decoders after Fuse; the result */
} kvsi_decoding;

void kvsi_decoding_init(kvsi_decoding *d, const kvs_tokenizer *t);
void kvsi_decoding_release(kvsi_decoding *d);
void kvsi_decoding_reset(kvsi_decoding *d); /* drops all ids and empties the text */
/* Appends the text that is final to d->text.  If an id is not in the vocabulary, nothing
 * changes. */
kvs_status kvsi_decoding_add(kvsi_decoding *d, const int32_t *ids, size_t count, kvs_err *err);
/* Decodes held ids: more ids follow, so they do not end the text. */
kvs_status kvsi_decoding_flush(kvsi_decoding *d, kvs_err *err);
/* Appends the rest. */
kvs_status kvsi_decoding_finish(kvsi_decoding *d, kvs_err *err);

#endif
