/* convert/companions.h - files that go along with a model of Hugging Face's layout. */
#ifndef KVSI_CONVERT_COMPANIONS_H
#define KVSI_CONVERT_COMPANIONS_H

#include "base/json.h"

/* Whether a file may be one that this writes. */
int kvsi_is_companion(const char *name);

/* What was found and copied. */
typedef struct kvsi_companions {
    int tokenizer; /* a file that says all of the tokenizer */
    int settings;  /* tokenizer_config.json */
} kvsi_companions;

/* Copies the tokenizer's files of a folder, and Python files that tokenizer_config.json refers to;
 * references to files that are not there are left out of the copy. */
kvs_status kvsi_copy_companions(kvsi_companions *out, const char *from, const char *to,
                                const kvs_tokenizer *tokenizer, kvs_err *err);
/* generation_config.json, if there is one. */
kvs_status kvsi_copy_generation(const char *from, const char *to, kvs_err *err);

/* The template of chats that a folder has in chat_template.jinja or tokenizer_config.json, in fresh
 * memory (kvsi_free); NULL = none. */
kvs_status kvsi_read_chat_template(char **out, const char *folder, kvs_err *err);

kvs_status kvsi_write_bytes(const char *dir, const char *name, const char *bytes, size_t size,
                            kvs_err *err);
/* Takes the reference; NULL stands for memory that ran out. */
kvs_status kvsi_write_json(const char *dir, const char *name, json_t *value, kvs_err *err);

#endif
