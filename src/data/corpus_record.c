/* corpus.json: the shards of the folder, the source texts, and the split. */
#include "base/array.h"
#include "base/checksum.h"
#include "base/json.h"
#include "base/memory.h"
#include "base/names.h"
#include "data/corpus.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const kvsi_split_names[KVSI_SPLITS] = {
    [KVS_SPLIT_TRAIN] = "train", [KVS_SPLIT_VALID] = "valid"};
const char kvsi_tokenizer_file[] = "tokenizer.json";

static const char format_name[] = "kvshift corpus";

enum { RECORD_VERSION = 1, RECORD_BYTES = 64 << 20, LISTED_MAX = 1 << 20 };

static const kvsi_name rules[] = {{"none", KVS_SPLIT_NONE},
                                  {"document", KVS_SPLIT_BY_DOCUMENT},
                                  {"position", KVS_SPLIT_BY_POSITION},
                                  {NULL, 0}};

const char *kvsi_split_rule_name(kvs_split_rule rule)
{
    return kvsi_name_of(rules, (int)rule);
}

void kvsi_corpus_record_release(kvsi_corpus_record *record)
{
    for (size_t i = 0; i < record->source_count; i++)
        kvsi_free(record->sources[i].name);
    kvsi_free(record->sources);
    for (int s = 0; s < KVSI_SPLITS; s++)
        kvsi_free(record->shards[s]);
    *record = (kvsi_corpus_record){0};
}

kvs_status kvsi_corpus_record_add_shard(kvsi_corpus_record *record, kvs_split split,
                                        const kvsi_shard_record *shard, kvs_err *err)
{
    kvs_split_info *info = &record->info.split[split];

    TRY(kvsi_array_reserve(&record->shards[split], &record->shard_capacity[split], info->shards + 1,
                           sizeof *shard, err));
    record->shards[split][info->shards++] = *shard;
    info->tokens += shard->tokens;
    info->documents += shard->documents;
    return KVS_OK;
}

/* ---- writing --------------------------------------------------------------------------------- */

/* As a string: JSON numbers do not hold 64 bits. */
static json_t *hash_to_json(uint64_t hash)
{
    char text[KVSI_CHECKSUM_TEXT];

    kvsi_checksum_print(text, hash);
    return json_string(text);
}

static json_t *split_to_json(const kvsi_corpus_record *record, int split)
{
    const kvs_split_info *info = &record->info.split[split];
    json_t *shards = json_array();

    for (size_t i = 0; i < info->shards; i++) {
        const kvsi_shard_record *shard = &record->shards[split][i];

        json_array_append_new(shards, json_pack("{s:s, s:I, s:I, s:o}", "file", shard->name,
                                                "tokens", (json_int_t)shard->tokens, "documents",
                                                (json_int_t)shard->documents, "checksum",
                                                hash_to_json(shard->checksum)));
    }
    return json_pack("{s:I, s:I, s:o}", "tokens", (json_int_t)info->tokens, "documents",
                     (json_int_t)info->documents, "shards", shards);
}

static json_t *sources_to_json(const kvsi_corpus_record *record)
{
    json_t *sources = json_array();

    for (size_t i = 0; i < record->source_count; i++) {
        const kvsi_source_record *source = record->sources + i;

        json_array_append_new(sources, json_pack("{s:s, s:I, s:o}", "name", source->name, "bytes",
                                                 (json_int_t)source->bytes, "checksum",
                                                 hash_to_json(source->checksum)));
    }
    return sources;
}

kvs_status kvsi_corpus_record_write(const kvsi_corpus_record *record, const char *path,
                                    kvs_err *err)
{
    const kvs_corpus_info *info = &record->info;
    json_t *split = json_pack("{s:s, s:f, s:I}", "by", kvsi_split_rule_name(info->rule), "valid",
                              info->valid, "seed", (json_int_t)info->seed);
    json_t *value = json_pack(
        "{s:s, s:i, s:I, s:I, s:s, s:o, s:b, s:o, s:o, s:o, s:o}", "format", format_name, "version",
        RECORD_VERSION, "vocab", (json_int_t)info->vocab, "id_bytes", (json_int_t)info->id_bytes,
        "tokenizer", info->tokenizer, "tokenizer_hash", hash_to_json(info->tokenizer_hash), "eos",
        info->eos, "split", split, kvsi_split_names[0], split_to_json(record, 0),
        kvsi_split_names[1], split_to_json(record, 1), "sources", sources_to_json(record));
    kvs_status st;

    if (!value)
        return kvsi_fail(err, KVS_E_NOMEM,
                         "cannot put '%s' into JSON: no memory, or the name of a "
                         "text file is not UTF-8",
                         path);
    st = kvsi_json_write(value, path, err);
    json_decref(value);
    return st;
}

/* ---- reading --------------------------------------------------------------------------------- */

static kvs_status get_count(uint64_t *out, const json_t *object, const char *key, const char *what,
                            kvs_err *err)
{
    size_t count = 0;

    TRY(kvsi_json_require(object, key, what, err));
    TRY(kvsi_json_get_size(&count, object, key, what, err));
    *out = count;
    return KVS_OK;
}

static kvs_status get_text(const char **out, const json_t *object, const char *key,
                           const char *what, kvs_err *err)
{
    TRY(kvsi_json_require(object, key, what, err));
    return kvsi_json_get_text(out, object, key, what, err);
}

static kvs_status get_hash(uint64_t *out, const json_t *object, const char *key, const char *what,
                           kvs_err *err)
{
    const char *text = "";

    TRY(get_text(&text, object, key, what, err));
    if (strlen(text) != 16 || text[strspn(text, "0123456789abcdef")])
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': key '%s': expected 16 hexadecimal digits, found '%s'", what, key,
                         text);
    *out = strtoull(text, NULL, 16);
    return KVS_OK;
}

static kvs_status get_list(const json_t **out, const json_t *object, const char *key,
                           const char *what, kvs_err *err)
{
    *out = json_object_get(object, key);
    if (!json_is_array(*out) || json_array_size(*out) > LISTED_MAX)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected a list of at most %d", what,
                         key, LISTED_MAX);
    return KVS_OK;
}

static kvs_status get_object(const json_t **out, const json_t *object, const char *key,
                             const char *what, kvs_err *err)
{
    *out = json_object_get(object, key);
    if (!json_is_object(*out))
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected an object", what, key);
    return KVS_OK;
}

static kvs_status read_shard(kvsi_shard_record *out, const json_t *object, const char *what,
                             kvs_err *err)
{
    const char *name = "";

    TRY(get_text(&name, object, "file", what, err));
    /* A shard's name must not leave the folder. */
    if (!*name || *name == '.' || strchr(name, '/') || strlen(name) >= sizeof out->name)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': '%s' is not a shard name", what, name);
    snprintf(out->name, sizeof out->name, "%s", name);
    TRY(get_count(&out->tokens, object, "tokens", what, err));
    TRY(get_count(&out->documents, object, "documents", what, err));
    return get_hash(&out->checksum, object, "checksum", what, err);
}

static kvs_status read_split(kvsi_corpus_record *record, const json_t *value, kvs_split split,
                             const char *what, kvs_err *err)
{
    const json_t *object, *shards;

    TRY(get_object(&object, value, kvsi_split_names[split], what, err));
    TRY(get_list(&shards, object, "shards", what, err));
    for (size_t i = 0; i < json_array_size(shards); i++) {
        kvsi_shard_record shard = {.tokens = 0};

        TRY(read_shard(&shard, json_array_get(shards, i), what, err));
        TRY(kvsi_corpus_record_add_shard(record, split, &shard, err));
    }
    return KVS_OK;
}

static kvs_status read_sources(kvsi_corpus_record *record, const json_t *value, const char *what,
                               kvs_err *err)
{
    const json_t *list;

    TRY(get_list(&list, value, "sources", what, err));
    record->sources = kvsi_alloc(json_array_size(list), sizeof *record->sources);
    if (!record->sources)
        return kvsi_no_memory(err, "'%s'", what);
    for (size_t i = 0; i < json_array_size(list); i++) {
        kvsi_source_record *source = record->sources + i;
        const json_t *object = json_array_get(list, i);
        const char *name = "";

        TRY(get_text(&name, object, "name", what, err));
        TRY(get_count(&source->bytes, object, "bytes", what, err));
        TRY(get_hash(&source->checksum, object, "checksum", what, err));
        source->name = kvsi_strdup(name);
        if (!source->name)
            return kvsi_no_memory(err, "'%s'", what);
        record->source_count++;
    }
    return KVS_OK;
}

static kvs_status read_rule(kvs_corpus_info *info, const json_t *value, const char *what,
                            kvs_err *err)
{
    const json_t *object;
    const char *by = "";
    int rule = 0;

    TRY(get_object(&object, value, "split", what, err));
    TRY(get_text(&by, object, "by", what, err));
    TRY(kvsi_name_parse(&rule, rules, "split rule", by, err));
    TRY(kvsi_json_get_real(&info->valid, object, "valid", what, err));
    TRY(get_count(&info->seed, object, "seed", what, err));
    info->rule = (kvs_split_rule)rule;
    return KVS_OK;
}

static kvs_status read_info(kvs_corpus_info *info, const json_t *value, const char *what,
                            kvs_err *err)
{
    const char *format = "", *tokenizer = "";
    uint64_t version = 0;

    TRY(get_text(&format, value, "format", what, err));
    TRY(get_count(&version, value, "version", what, err));
    if (strcmp(format, format_name) != 0 || version != RECORD_VERSION)
        return kvsi_fail(err, KVS_E_UNSUPPORTED,
                         "'%s' is '%s' version %" PRIu64 ", expected '%s' version %d", what, format,
                         version, format_name, RECORD_VERSION);
    TRY(kvsi_json_require(value, "vocab", what, err));
    TRY(kvsi_json_get_size(&info->vocab, value, "vocab", what, err));
    TRY(kvsi_json_get_size(&info->id_bytes, value, "id_bytes", what, err));
    TRY(kvsi_json_get_bool(&info->eos, value, "eos", what, err));
    TRY(get_hash(&info->tokenizer_hash, value, "tokenizer_hash", what, err));
    TRY(get_text(&tokenizer, value, "tokenizer", what, err));
    if (strcmp(tokenizer, "bytes") != 0 && strcmp(tokenizer, kvsi_tokenizer_file) != 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': tokenizer is '%s', expected bytes or %s", what,
                         tokenizer, kvsi_tokenizer_file);
    info->tokenizer = strcmp(tokenizer, "bytes") == 0 ? "bytes" : kvsi_tokenizer_file;
    info->format = kvsi_shard_format_name(KVSI_SHARD_OWN);
    return KVS_OK;
}

kvs_status kvsi_corpus_record_read(kvsi_corpus_record *out, const char *path, kvs_err *err)
{
    kvsi_corpus_record record = {.source_count = 0};
    json_t *value = NULL;
    kvs_status st;

    *out = (kvsi_corpus_record){0};
    TRY_OUT(kvsi_json_read(&value, path, RECORD_BYTES, err));
    TRY_OUT(read_info(&record.info, value, path, err));
    TRY_OUT(read_rule(&record.info, value, path, err));
    for (int s = 0; s < KVSI_SPLITS; s++)
        TRY_OUT(read_split(&record, value, (kvs_split)s, path, err));
    TRY_OUT(read_sources(&record, value, path, err));
    *out = record;
    record = (kvsi_corpus_record){0};
out:
    kvsi_corpus_record_release(&record);
    json_decref(value);
    return st;
}
