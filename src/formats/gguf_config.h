/* formats/gguf_config.h - the settings of a model in the keys and tensors of a GGUF file. */
#ifndef KVSI_FORMATS_GGUF_CONFIG_H
#define KVSI_FORMATS_GGUF_CONFIG_H

#include "formats/gguf.h"
#include "formats/gguf_families.h"
#include "formats/gguf_write.h"

/* ---- whole models ---------------------------------------------------------------------------- */

/* The settings of a file whose tensors have been read.  Keys that the family does not have, and
 * values that it cannot have, are refused by name. */
kvs_status kvsi_gguf_read_config(kvs_model_config *out, const kvsi_gguf *file, const char *path,
                                 const kvsi_gguf_family *family, kvs_err *err);

/* Whether llama.cpp computes a model with these settings as that family; if not, `reason`, unless
 * NULL, becomes the first setting that it does not have. */
int kvsi_gguf_fits(const kvsi_gguf_family *family, const kvs_model_config *config,
                   const kvsi_setting **reason);

/* The keys of a model that fits, or those of ours. */
void kvsi_gguf_put_config(kvsi_gguf_keys *keys, const kvs_model_config *config,
                          const kvsi_gguf_family *family);

/* ---- keys of one file ------------------------------------------------------------------------ */

enum { KVSI_GGUF_KEY = 96 };

typedef struct kvsi_gguf_source {
    const kvsi_gguf *file;
    const char *path;
    const kvsi_gguf_family *family;
} kvsi_gguf_source;

/* A key with the architecture's name before it. */
void kvsi_gguf_full_key(char out[KVSI_GGUF_KEY], const kvsi_gguf_family *family, const char *key);
/* A number of any type; *out stays as it is without the key. */
kvs_status kvsi_gguf_number(double *out, const kvsi_gguf_source *s, const char *key, kvs_err *err);
int kvsi_gguf_has_key(const kvsi_gguf_source *s, const char *key);
kvs_status kvsi_gguf_fail_missing(const kvsi_gguf_source *s, const char *key, kvs_err *err);
/* Whether numbers are equal up to the digits of floats in files. */
int kvsi_gguf_is_near(double found, double expected);

/* ---- scaled positions and windows (gguf_positions.c) ----------------------------------------- */

kvs_status kvsi_gguf_positions_read(kvs_model_config *config, const kvsi_gguf_source *s,
                                    kvs_err *err);
/* Whether the key is read there. */
int kvsi_gguf_positions_knows(const char *key, size_t size);
/* Copies the settings of positions and windows that llama.cpp computes. */
void kvsi_gguf_positions_copy(kvs_model_config *to, const kvs_model_config *from,
                              const kvsi_gguf_family *family);
void kvsi_gguf_positions_put(kvsi_gguf_keys *keys, const kvs_model_config *config,
                             const kvsi_gguf_family *family);

/* Tensors of numbers that belong to scaled positions.  Fills the values, one per rotary pair, and
 * returns the count; 0: there is no tensor `index` or it is none of these. */
enum { KVSI_GGUF_FACTOR_TENSORS = 2 };
size_t kvsi_gguf_factors(const char **name, float values[KVSI_LIST_MAX],
                         const kvs_model_config *config, size_t index);
/* Whether a tensor of a file is one of them. */
int kvsi_gguf_is_factors(const char *name);

#endif
