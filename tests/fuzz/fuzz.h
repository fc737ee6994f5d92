/* fuzz.h - what fuzz targets share.  A target is one file, fuzz_NAME.c, that says what is done with
 * an input and how good inputs look; beside it may be fuzz_NAME.dict, words for libFuzzer.
 *
 *     fuzz_NAME --seeds DIR      writes its good inputs to DIR
 *     fuzz_NAME FILE             runs one input again
 *     script/fuzz NAME           does all that is needed
 *
 * Whatever an input is, a target must neither crash, nor hang, nor leak, nor take memory without
 * proportion; whether it is refused does not matter.  Good inputs must be taken, since nothing can
 * be found behind a door that they do not open. */
#ifndef KVSI_TESTS_FUZZ_H
#define KVSI_TESTS_FUZZ_H

#include "model_files.h"

/* ---- what a target defines ---- */

/* Both are called in a folder of the target's own, which is empty at first. */
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
 * fuzz_unpack writes those whose names it is given (the list ends with NULL) and removes the others
 * of them; the line end before a mark is none of the file's.  fuzz_pack adds one file to an input.
 */
void fuzz_unpack(const char *const *names, const char *data, size_t size);
void fuzz_pack(kvsi_text *input, const char *name, const void *data, size_t size);
/* A file that is there, as the whole input or as one of several. */
void fuzz_put_file(kvsi_text *input, const char *path);
void fuzz_pack_file(kvsi_text *input, const char *name, const char *path);

/* Writes `text` over what follows the first `key` in the input; 0: there is none, or no room. */
int fuzz_overwrite(kvsi_text *input, const char *key, const char *text);

/* ---- seeds ---- */

/* A good input, which is released. */
void fuzz_seed(const char *name, kvsi_text *input);
void fuzz_seed_text(const char *name, const char *text);

/* What must be so; otherwise the target has found something. */
void fuzz_expect(int holds, const char *what);

/* ---- models (models.c) ---- */

/* One thread, and the plain operations, which need no workspace: files are tried here, not they. */
kvs_runtime *fuzz_runtime(void);
/* As small as can be: `special` as for support_config, which fills in the rest. */
kvs_model *fuzz_model(const kvs_model_config *special);
/* Opens what is at the path in every way there is, loads it and feeds it two tokens. */
kvs_status fuzz_use_model(const char *path, kvs_err *err);
/* A folder with config.json and model.safetensors. */
void fuzz_pack_model(kvsi_text *input, const kvs_model *model, kvsi_dtype dtype);

/* ---- tokenizers (tokenizers.c) ---- */

/* Loads it, sends texts through it, one of them `data`, saves it and loads it again. */
kvs_status fuzz_use_tokenizer(const char *path, const char *data, size_t size, kvs_err *err);

/* ---- corpora (corpora.c) ---- */

/* Opens it, reads all tokens and draws from it.  `vocab` as in kvs_corpus_options. */
kvs_status fuzz_use_corpus(const char *path, size_t vocab, kvs_err *err);

#endif
