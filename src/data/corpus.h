/* data/corpus.h - a corpus folder: shards of tokens, corpus.json that lists them, the tokenizer. */
#ifndef KVSI_DATA_CORPUS_H
#define KVSI_DATA_CORPUS_H

#include "data/shard.h"

enum { KVSI_SPLITS = 2, KVSI_SHARD_NAME = 32 };

/* Returns whether the value of the caller is one of the two splits. */
static inline int kvsi_is_split(kvs_split split)
{
    return split == KVS_SPLIT_TRAIN || split == KVS_SPLIT_VALID;
}

/* ---- building -------------------------------------------------------------------------------- */

/* The arguments of kvs_corpus_build without the folder. */
typedef struct kvsi_corpus_plan {
    const char *const *files; /* text or .jsonl; compressed files end in .zst */
    size_t count;
    const char *tokenizer;        /* as for kvs_tokenizer_load */
    kvs_corpus_build_options how; /* `size` is not used */
} kvsi_corpus_plan;

/* Returns a number from 0 to below 1; a document is for validation if it is below the fraction. */
double kvsi_split_hash(uint64_t seed, uint64_t document);
/* Sets the default options and the tokenizer "bytes". */
void kvsi_corpus_plan_init(kvsi_corpus_plan *plan);
kvs_status kvsi_corpus_build(const kvsi_corpus_plan *plan, const char *dir, kvs_err *err);

/* ---- the contents of corpus.json ------------------------------------------------------------- */

typedef struct kvsi_shard_record {
    char name[KVSI_SHARD_NAME];
    uint64_t tokens, documents, checksum;
} kvsi_shard_record;

typedef struct kvsi_source_record {
    char *name;
    uint64_t bytes, checksum; /* of the file on disk */
} kvsi_source_record;

typedef struct kvsi_corpus_record {
    kvs_corpus_info info;                   /* `tokenizer` is a static string */
    kvsi_shard_record *shards[KVSI_SPLITS]; /* [info.split[].shards] */
    size_t shard_capacity[KVSI_SPLITS];
    kvsi_source_record *sources;
    size_t source_count;
} kvsi_corpus_record;

extern const char *const kvsi_split_names[KVSI_SPLITS]; /* "train", "valid" */
extern const char kvsi_tokenizer_file[];                /* "tokenizer.json" */

kvs_status kvsi_corpus_record_write(const kvsi_corpus_record *record, const char *path,
                                    kvs_err *err);
kvs_status kvsi_corpus_record_read(kvsi_corpus_record *out, const char *path, kvs_err *err);
void kvsi_corpus_record_release(kvsi_corpus_record *record);
kvs_status kvsi_corpus_record_add_shard(kvsi_corpus_record *record, kvs_split split,
                                        const kvsi_shard_record *shard, kvs_err *err);
const char *kvsi_split_rule_name(kvs_split_rule rule);

/* ---- the open corpus ------------------------------------------------------------------------- */

struct kvs_corpus {
    char *path;
    kvsi_corpus_record record;
    char *tokenizer; /* the string of info.tokenizer; NULL = unknown */
    kvsi_shard *shards[KVSI_SPLITS];
};

#endif
