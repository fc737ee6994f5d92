/* repro/texts.h - the text that an experiment's models learn: a tokenizer and a corpus in the
 * experiment's folder, made once from the texts that were given. */
#ifndef KVSI_REPRO_TEXTS_H
#define KVSI_REPRO_TEXTS_H

#include "base/json.h"
#include "base/text.h"
#include "kvshift/kvshift_lab.h"

/* Names and sizes of the texts, to tell whether they are those of before; [] if none is given. */
kvs_status kvsi_texts_describe(json_t **out, const kvs_repro_options *options, kvs_err *err);

/* A path that is a corpus is taken as it is.  Texts become `out`/text/: a tokenizer of `vocab`
 * tokens (0 = bytes) and a corpus.  Where none is given one is made up. */
kvs_status kvsi_texts_open(kvs_corpus **corpus, kvs_tokenizer **tokenizer,
                           const kvs_repro_options *options, size_t vocab, kvs_err *err);

/* About `size` bytes of a language that does not exist (language.c): words follow each other by
 * fixed habits, and each of its stories has names of its own that come back. */
void kvsi_make_language(kvsi_text *out, size_t size, uint64_t seed);

#endif
