/* repro/texts.h - the text data of an experiment: a tokenizer and a corpus in its folder, made once
 * from the given files. */
#ifndef KVSI_REPRO_TEXTS_H
#define KVSI_REPRO_TEXTS_H

#include "base/json.h"
#include "base/text.h"
#include "kvshift/kvshift_lab.h"

/* Names and sizes of the texts, to compare when resuming; [] if none is given. */
kvs_status kvsi_texts_describe(json_t **out, const kvs_repro_options *options, kvs_err *err);

/* Opens a given corpus, or makes `out`/text/ from the given files: a tokenizer of `vocab` tokens
 * (0 = bytes) and a corpus.  Without files a synthetic text is used. */
kvs_status kvsi_texts_open(kvs_corpus **corpus, kvs_tokenizer **tokenizer,
                           const kvs_repro_options *options, size_t vocab, kvs_err *err);

/* About `size` bytes of a synthetic language (language.c) with preferred bigrams, and stories whose
 * names recur. */
void kvsi_make_language(kvsi_text *out, size_t size, uint64_t seed);

#endif
