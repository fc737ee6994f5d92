/* fuzz.h - shared by the fuzz targets.  A target is one file, fuzz_NAME.c, that uses an input and
 * provides valid inputs; fuzz_NAME.dict may contain words for libFuzzer.
 *
 *     fuzz_NAME --seeds DIR      writes its valid inputs to DIR
 *     fuzz_NAME FILE             runs one input again
 *     script/fuzz NAME           does everything
 *
 * For any input, a target must not crash, hang, leak, or use memory out of proportion; whether the
 * input is refused does not matter.  Valid inputs must be accepted, since otherwise the code behind
 * the checks is not reached. */
#ifndef KVSI_TESTS_FUZZ_H
#define KVSI_TESTS_FUZZ_H

#include "model_files.h"

/* ---- what a target defines ---- */

/* Both are called in the target's own folder, which is empty at first. */
kvs_status fuzz_run(const char *data, size_t size, kvs_err *err);
void fuzz_seeds(void);

/* ---- files ---- */

/* Writes a file to the target's folder. */
void fuzz_write(const char *name, const void *data, size_t size);

/* Several files in one input:
 *
 *     ==== config.json
 *     {...}
 *     ==== model.safetensors
 *     ...
 *
 * fuzz_unpack writes the files whose names are given (the list ends with NULL) and removes those of
 * them that are missing; the line end before a mark is not part of a file.  fuzz_pack adds one file
 * to an input. */
void fuzz_unpack(const char *const *names, const char *data, size_t size);
void fuzz_pack(kvsi_text *input, const char *name, const void *data, size_t size);
/* Adds an existing file, as the whole input or as one of several. */
void fuzz_put_file(kvsi_text *input, const char *path);
void fuzz_pack_file(kvsi_text *input, const char *name, const char *path);

/* Overwrites what follows the first `key` with `text`; returns 0 if there is no key or not enough
 * space. */
int fuzz_overwrite(kvsi_text *input, const char *key, const char *text);

/* ---- seeds ---- */

/* Adds a valid input and releases it. */
void fuzz_seed(const char *name, kvsi_text *input);
void fuzz_seed_text(const char *name, const char *text);

/* A condition that must hold; otherwise the target has found a bug. */
void fuzz_expect(int holds, const char *what);

/* ---- models (models.c) ---- */

/* One thread and the reference operations, which need no workspace: only files are tested here. */
kvs_runtime *fuzz_runtime(void);
/* The smallest model: `special` as for support_config, which sets the rest. */
kvs_model *fuzz_model(const kvs_model_config *special);
/* Opens the model at the path in every way, loads it and feeds it two tokens. */
kvs_status fuzz_use_model(const char *path, kvs_err *err);
/* A folder with config.json and model.safetensors. */
void fuzz_pack_model(kvsi_text *input, const kvs_model *model, kvsi_dtype dtype);

/* ---- tokenizers (tokenizers.c) ---- */

/* Loads it, encodes texts, one of them `data`, saves it and loads it again. */
kvs_status fuzz_use_tokenizer(const char *path, const char *data, size_t size, kvs_err *err);

/* ---- corpora (corpora.c) ---- */

/* Opens it, reads all tokens and draws sequences.  `vocab` as in kvs_corpus_options. */
kvs_status fuzz_use_corpus(const char *path, size_t vocab, kvs_err *err);

#endif
