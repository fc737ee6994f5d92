/* family_models.h - small random models, one or more of each architecture that GGUF files have. */
#ifndef KVSI_TESTS_FAMILY_MODELS_H
#define KVSI_TESTS_FAMILY_MODELS_H

#include "base/text.h"
#include "support.h"

/* As which architecture it is written, and from a GGUF file as which type of families.c. */
typedef struct family_model {
    const char *architecture, *type;
    const char *family;   /* of which files it is read; NULL = none */
    const char *settings; /* "NAME=VALUE ...", beside the sizes */
} family_model;

/* NULL past the end. */
const family_model *family_model_at(size_t index);
/* Its configuration, of 4 layers, 2 heads and one KV head. */
kvs_model_config family_config(const family_model *model, size_t dim);
/* A GGUF file of its random weights, in BF16; `dir` is for the file. */
void put_family_gguf(kvsi_text *file, const char *dir, const family_model *model, size_t dim);

#endif
