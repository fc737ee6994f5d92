/* convert/companions.h - files that accompany a model in Hugging Face's layout. */
#ifndef KVSI_CONVERT_COMPANIONS_H
#define KVSI_CONVERT_COMPANIONS_H

#include "base/json.h"

/* Whether these functions may write a file of this name. */
int kvsi_is_companion(const char *name);

/* What was copied. */
typedef struct kvsi_companions {
    int tokenizer; /* a file with the complete tokenizer */
    int settings;  /* tokenizer_config.json */
} kvsi_companions;

/* Copies a folder's tokenizer files, and the Python files that tokenizer_config.json refers to.
 * References to missing files are removed from the copy. */
kvs_status kvsi_copy_companions(kvsi_companions *out, const char *from, const char *to,
                                const kvs_tokenizer *tokenizer, kvs_err *err);
/* Copies generation_config.json if it exists. */
kvs_status kvsi_copy_generation(const char *from, const char *to, kvs_err *err);

/* The chat template from chat_template.jinja or tokenizer_config.json, in fresh memory (kvsi_free);
 * NULL = none. */
kvs_status kvsi_read_chat_template(char **out, const char *folder, kvs_err *err);

kvs_status kvsi_write_bytes(const char *dir, const char *name, const char *bytes, size_t size,
                            kvs_err *err);
/* Takes over the reference; NULL means out of memory. */
kvs_status kvsi_write_json(const char *dir, const char *name, json_t *value, kvs_err *err);

#endif
