/* Opens a corpus: maps every shard and compares it with corpus.json. */
#include "data/corpus.h"

#include "base/files.h"
#include "base/memory.h"
#include "base/sized.h"

#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>

/* ---- a folder -------------------------------------------------------------------------------- */

static kvs_status compare(const kvsi_shard *shard, const kvsi_shard_record *record,
                          const kvs_corpus_info *info, kvs_err *err)
{
    if (shard->format != KVSI_SHARD_OWN)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' is not a shard: expected it to begin with 'kvstoken'", shard->path);
    if (shard->tokenizer_hash != info->tokenizer_hash)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' was made with tokenizer %016" PRIx64 ", its corpus with %016" PRIx64,
                         shard->path, shard->tokenizer_hash, info->tokenizer_hash);
    if (shard->tokens != record->tokens || shard->documents != record->documents ||
        shard->checksum != record->checksum)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' has %" PRIu64 " tokens, %" PRIu64 " documents, checksum %016" PRIx64
                         "; corpus.json expects %" PRIu64 ", %" PRIu64 ", %016" PRIx64,
                         shard->path, shard->tokens, shard->documents, shard->checksum,
                         record->tokens, record->documents, record->checksum);
    return KVS_OK;
}

static kvs_status open_shard(kvs_corpus *corpus, kvs_split split, size_t index, kvs_err *err)
{
    const kvsi_shard_record *record = &corpus->record.shards[split][index];
    kvs_corpus_info *info = &corpus->record.info;
    kvsi_shard *shard = &corpus->shards[split][index];
    char *path = kvsi_path_join(corpus->path, record->name);
    kvs_status st;

    if (!path)
        return kvsi_no_memory(err, "'%s'", corpus->path);
    TRY_OUT(kvsi_shard_open(shard, path, info->vocab, err));
    TRY_OUT(compare(shard, record, info, err));
    if (shard->longest > info->split[split].longest)
        info->split[split].longest = shard->longest;
out:
    kvsi_free(path);
    return st;
}

static kvs_status open_folder(kvs_corpus *corpus, kvs_err *err)
{
    kvs_corpus_info *info = &corpus->record.info;
    char *path = kvsi_path_join(corpus->path, "corpus.json");
    kvs_status st;

    if (!path)
        return kvsi_no_memory(err, "'%s'", corpus->path);
    if (!kvsi_file_exists(path)) {
        st = kvsi_fail(err, KVS_E_IO, "the folder '%s' is no corpus: it has no corpus.json",
                       corpus->path);
        goto out;
    }
    TRY_OUT(kvsi_corpus_record_read(&corpus->record, path, err));
    for (int s = 0; s < KVSI_SPLITS; s++) {
        corpus->shards[s] = kvsi_alloc(info->split[s].shards, sizeof *corpus->shards[s]);
        if (!corpus->shards[s]) {
            st = kvsi_no_memory(err, "'%s'", corpus->path);
            goto out;
        }
        for (size_t i = 0; i < info->split[s].shards; i++)
            TRY_OUT(open_shard(corpus, (kvs_split)s, i, err));
    }
    corpus->tokenizer = info->tokenizer == kvsi_tokenizer_file
                            ? kvsi_path_join(corpus->path, kvsi_tokenizer_file)
                            : kvsi_strdup(info->tokenizer);
    if (!corpus->tokenizer)
        st = kvsi_no_memory(err, "'%s'", corpus->path);
    info->tokenizer = corpus->tokenizer;
out:
    kvsi_free(path);
    return st;
}

/* ---- single files ---------------------------------------------------------------------------- */

/* Makes the file the only shard of a split. */
static kvs_status open_file(kvs_corpus *corpus, kvs_split split, const char *path, size_t vocab,
                            kvs_err *err)
{
    kvs_split_info *info = &corpus->record.info.split[split];
    kvsi_shard *shard = kvsi_alloc(1, sizeof *shard);

    if (!shard)
        return kvsi_no_memory(err, "'%s'", path);
    corpus->shards[split] = shard;
    TRY(kvsi_shard_open(shard, path, vocab, err));
    *info = (kvs_split_info){.tokens = shard->tokens,
                             .documents = shard->documents,
                             .longest = shard->longest,
                             .shards = 1};
    return KVS_OK;
}

static kvs_status open_files(kvs_corpus *corpus, const kvs_corpus_options *options, kvs_err *err)
{
    kvs_corpus_info *info = &corpus->record.info;
    const kvsi_shard *train, *valid;

    TRY(open_file(corpus, KVS_SPLIT_TRAIN, corpus->path, options->vocab, err));
    train = corpus->shards[KVS_SPLIT_TRAIN];
    info->format = kvsi_shard_format_name(train->format);
    info->tokenizer_hash = train->tokenizer_hash;
    info->vocab = train->vocab;
    info->id_bytes = train->id_bytes;
    if (!options->valid)
        return KVS_OK;
    TRY(open_file(corpus, KVS_SPLIT_VALID, options->valid, train->vocab, err));
    valid = corpus->shards[KVS_SPLIT_VALID];
    if (valid->format != train->format || valid->tokenizer_hash != train->tokenizer_hash)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' (%s, tokenizer %016" PRIx64 ") does not match '%s' (%s, %016" PRIx64
                         ")",
                         valid->path, kvsi_shard_format_name(valid->format), valid->tokenizer_hash,
                         train->path, info->format, train->tokenizer_hash);
    return KVS_OK;
}

/* Limits a shard of one document to `count` tokens, starting at `first`. */
static void keep_part(kvsi_shard *shard, uint64_t first, uint64_t tokens)
{
    shard->ids += first * shard->id_bytes;
    shard->tokens = shard->longest = tokens;
}

kvs_status kvs_corpus_hold_out(kvs_corpus *corpus, double fraction, kvs_err *err)
{
    kvs_corpus_info *info;
    kvs_split_info *train, *valid;
    kvsi_shard *whole;
    uint64_t all, held;

    NEED(corpus);
    info = &corpus->record.info;
    train = &info->split[KVS_SPLIT_TRAIN];
    valid = &info->split[KVS_SPLIT_VALID];
    whole = corpus->shards[KVS_SPLIT_TRAIN];
    if (train->shards != 1 || valid->shards != 0 || whole->starts)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' has documents or a validation split, expected one file of ids",
                         corpus->path);
    all = train->tokens;
    held = fraction > 0 && fraction < 1 ? (uint64_t)((double)all * fraction) : 0;
    if (held < 2 || all - held < 2)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' has %" PRIu64 " tokens, of which %g %% cannot be held out: both "
                         "parts need 2",
                         corpus->path, all, 100 * fraction);
    TRY(open_file(corpus, KVS_SPLIT_VALID, corpus->path, info->vocab, err));
    keep_part(corpus->shards[KVS_SPLIT_VALID], all - held, held);
    keep_part(whole, 0, all - held);
    valid->tokens = valid->longest = held;
    train->tokens = train->longest = all - held;
    info->rule = KVS_SPLIT_BY_POSITION;
    info->valid = fraction;
    return KVS_OK;
}

/* ---- both ------------------------------------------------------------------------------------ */

static kvs_status match_tokenizer(const kvs_corpus *corpus, const kvs_tokenizer *tokenizer,
                                  kvs_err *err)
{
    const kvs_corpus_info *info = &corpus->record.info;
    const uint64_t hash = kvs_tokenizer_hash(tokenizer);
    const size_t vocab = kvs_tokenizer_vocab(tokenizer);

    if (hash == 0)
        return kvsi_no_memory(err, "the hash of a tokenizer");
    if (info->tokenizer_hash && hash != info->tokenizer_hash)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the tokenizer differs from that of '%s': expected hash %016" PRIx64
                         ", found %016" PRIx64,
                         corpus->path, info->tokenizer_hash, hash);
    if (vocab != info->vocab)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the tokenizer has %zu tokens, the vocabulary of '%s' is %zu", vocab,
                         corpus->path, info->vocab);
    return KVS_OK;
}

static kvs_status open_path(kvs_corpus *corpus, const kvs_corpus_options *options, kvs_err *err)
{
    struct stat info;

    if (stat(corpus->path, &info) != 0)
        return kvsi_fail_errno(err, "open", corpus->path);
    if (!S_ISDIR(info.st_mode)) {
        TRY(open_files(corpus, options, err));
    } else {
        if (options->valid)
            return kvsi_fail(err, KVS_E_INVALID,
                             "'%s' has its own validation split, so '%s' cannot be it",
                             corpus->path, options->valid);
        TRY(open_folder(corpus, err));
        if (options->vocab && options->vocab != corpus->record.info.vocab)
            return kvsi_fail(err, KVS_E_INVALID, "'%s' has a vocabulary of %zu, expected %zu",
                             corpus->path, corpus->record.info.vocab, options->vocab);
    }
    if (options->tokenizer)
        TRY(match_tokenizer(corpus, options->tokenizer, err));
    return KVS_OK;
}

static const kvs_corpus_options defaults = {.size = sizeof defaults};

void kvs_corpus_options_init(kvs_corpus_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

kvs_status kvs_corpus_open(kvs_corpus **out, const char *path, const kvs_corpus_options *options,
                           kvs_err *err)
{
    kvs_corpus_options o = defaults;
    kvs_corpus *corpus;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(path);
    TRY(kvsi_sized_read(&o, sizeof o, options, "kvs_corpus_options", err));
    corpus = kvsi_alloc(1, sizeof *corpus);
    if (!corpus)
        return kvsi_no_memory(err, "'%s'", path);
    corpus->path = kvsi_strdup(path);
    if (!corpus->path) {
        st = kvsi_no_memory(err, "'%s'", path);
        goto out;
    }
    TRY_OUT(open_path(corpus, &o, err));
    *out = corpus;
    corpus = NULL;
out:
    kvs_corpus_close(corpus);
    return st;
}

void kvs_corpus_close(kvs_corpus *corpus)
{
    if (!corpus)
        return;
    for (int s = 0; s < KVSI_SPLITS; s++) {
        for (size_t i = 0; corpus->shards[s] && i < corpus->record.info.split[s].shards; i++)
            kvsi_shard_close(&corpus->shards[s][i]);
        kvsi_free(corpus->shards[s]);
    }
    kvsi_corpus_record_release(&corpus->record);
    kvsi_free(corpus->tokenizer);
    kvsi_free(corpus->path);
    kvsi_free(corpus);
}

kvs_status kvs_corpus_load_tokenizer(kvs_tokenizer **out, const kvs_corpus *corpus, kvs_err *err)
{
    const char *path;
    kvs_tokenizer *tokenizer = NULL;
    kvs_status st = KVS_OK;

    NEED(out);
    *out = NULL;
    NEED(corpus);
    path = corpus->record.info.tokenizer;
    if (!path)
        return KVS_OK;
    TRY_OUT(kvs_tokenizer_load(&tokenizer, path, err));
    TRY_OUT(match_tokenizer(corpus, tokenizer, err));
    *out = tokenizer;
    tokenizer = NULL;
out:
    kvs_tokenizer_free(tokenizer);
    return st;
}

size_t kvs_corpus_read(int32_t *ids, size_t count, const kvs_corpus *corpus, kvs_split split,
                       uint64_t first)
{
    size_t done = 0;

    if (!ids || !corpus || !kvsi_is_split(split))
        return 0;
    for (size_t i = 0; done < count && i < corpus->record.info.split[split].shards; i++) {
        const kvsi_shard *shard = &corpus->shards[split][i];
        uint64_t here = first < shard->tokens ? shard->tokens - first : 0;

        here = here < count - done ? here : count - done;
        kvsi_shard_read(shard, first, (size_t)here, ids + done);
        done += (size_t)here;
        first = here > 0 ? 0 : first - shard->tokens;
    }
    return done;
}

kvs_status kvs_corpus_check(const kvs_corpus *corpus, kvs_err *err)
{
    const kvs_corpus_info *info;
    kvs_tokenizer *tokenizer = NULL;
    kvs_status st = KVS_OK;

    NEED(corpus);
    info = &corpus->record.info;
    for (int s = 0; s < KVSI_SPLITS; s++)
        for (size_t i = 0; i < info->split[s].shards; i++)
            TRY_OUT(kvsi_shard_verify(&corpus->shards[s][i], err));
    TRY_OUT(kvs_corpus_load_tokenizer(&tokenizer, corpus, err));
out:
    kvs_tokenizer_free(tokenizer);
    return st;
}

const kvs_corpus_info *kvs_corpus_get_info(const kvs_corpus *corpus)
{
    return corpus ? &corpus->record.info : NULL;
}

const char *kvs_corpus_source(const kvs_corpus *corpus, size_t index, uint64_t *bytes,
                              uint64_t *checksum)
{
    const kvsi_source_record *source;

    if (!corpus || index >= corpus->record.source_count)
        return NULL;
    source = corpus->record.sources + index;
    if (bytes)
        *bytes = source->bytes;
    if (checksum)
        *checksum = source->checksum;
    return source->name;
}

size_t kvs_corpus_document(int32_t *ids, size_t capacity, const kvs_corpus *corpus, kvs_split split,
                           uint64_t index)
{
    if ((!ids && capacity > 0) || !corpus || !kvsi_is_split(split))
        return 0;
    for (size_t i = 0; i < corpus->record.info.split[split].shards; i++) {
        const kvsi_shard *shard = &corpus->shards[split][i];

        if (index < shard->documents) {
            const uint64_t first = kvsi_shard_start(shard, index);
            const size_t count = (size_t)(kvsi_shard_start(shard, index + 1) - first);

            kvsi_shard_read(shard, first, count < capacity ? count : capacity, ids);
            return count;
        }
        index -= shard->documents;
    }
    return 0;
}
