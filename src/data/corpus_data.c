/* Data from a corpus: the sequences are numbered windows of documents.
 *
 *     document   t0 t1 t2 t3 t4 t5 t6          context 3
 *     window 0   t0 t1 t2       -> t1 t2 t3
 *     window 1            t3 t4 t5 -> t4 t5 t6
 *
 * Windows are numbered through the documents of a split in order.  The number of windows before
 * every 64th document is stored, so that a window is found with little memory and a short scan. */
#include "base/memory.h"
#include "data/corpus.h"
#include "data/data.h"
#include "data/shuffle.h"

enum { DOCUMENTS_A_MARK = 64 };

typedef struct shard_windows {
    const kvsi_shard *shard;
    uint64_t first;  /* number of its first window */
    uint64_t *marks; /* windows in the shard before documents 0, 64, 128, ... */
    size_t count;    /* number of marks */
} shard_windows;

typedef struct split_windows {
    shard_windows *shards;
    size_t shard_count;
    uint64_t count; /* number of windows */
} split_windows;

typedef struct corpus_data {
    kvs_data base;
    const kvs_corpus *corpus;
    size_t context;
    split_windows splits[KVSI_SPLITS];
} corpus_data;

/* ---- counting -------------------------------------------------------------------------------- */

static uint64_t windows_of(const kvsi_shard *shard, uint64_t document, size_t context)
{
    const uint64_t targets =
        kvsi_shard_start(shard, document + 1) - kvsi_shard_start(shard, document) - 1;

    return targets / context + (targets % context != 0);
}

uint64_t kvs_corpus_windows(const kvs_corpus *corpus, kvs_split split, size_t context)
{
    uint64_t count = 0;

    if (!corpus || !kvsi_is_split(split))
        return 0;
    for (size_t i = 0; context > 0 && i < corpus->record.info.split[split].shards; i++) {
        const kvsi_shard *shard = &corpus->shards[split][i];

        for (uint64_t d = 0; d < shard->documents; d++)
            count += windows_of(shard, d, context);
    }
    return count;
}

/* Adds the shard's windows to *count. */
static kvs_status mark_shard(shard_windows *windows, const kvsi_shard *shard, size_t context,
                             uint64_t *count, kvs_err *err)
{
    uint64_t before = 0;

    windows->shard = shard;
    windows->first = *count;
    windows->count = (size_t)((shard->documents - 1) / DOCUMENTS_A_MARK + 1);
    windows->marks = kvsi_alloc(windows->count, sizeof *windows->marks);
    if (!windows->marks)
        return kvsi_no_memory(err, "the windows of '%s'", shard->path);
    for (uint64_t d = 0; d < shard->documents; d++) {
        if (d % DOCUMENTS_A_MARK == 0)
            windows->marks[d / DOCUMENTS_A_MARK] = before;
        before += windows_of(shard, d, context);
    }
    *count += before;
    return KVS_OK;
}

static kvs_status mark_split(split_windows *windows, const kvs_corpus *corpus, kvs_split split,
                             size_t context, kvs_err *err)
{
    const size_t shards = corpus->record.info.split[split].shards;

    windows->shards = kvsi_alloc(shards, sizeof *windows->shards);
    if (!windows->shards)
        return kvsi_no_memory(err, "%zu shards", shards);
    for (; windows->shard_count < shards; windows->shard_count++)
        TRY(mark_shard(&windows->shards[windows->shard_count],
                       &corpus->shards[split][windows->shard_count], context, &windows->count,
                       err));
    return KVS_OK;
}

/* ---- drawing --------------------------------------------------------------------------------- */

static const shard_windows *find_shard(const split_windows *windows, uint64_t number)
{
    size_t low = 0,
           high = windows->shard_count; /* the last shard that starts at or before the window */

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (windows->shards[middle].first <= number)
            low = middle;
        else
            high = middle;
    }
    return &windows->shards[low];
}

/* The document that contains window *number of the shard; *number becomes the index in the
 * document. */
static uint64_t find_document(const shard_windows *windows, uint64_t *number, size_t context)
{
    size_t low = 0, high = windows->count;
    uint64_t document, count;

    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;

        if (windows->marks[middle] <= *number)
            low = middle;
        else
            high = middle;
    }
    document = (uint64_t)low * DOCUMENTS_A_MARK;
    *number -= windows->marks[low];
    while (*number >= (count = windows_of(windows->shard, document, context))) {
        *number -= count;
        document++;
    }
    return document;
}

static size_t read_window(const split_windows *windows, uint64_t number, size_t context,
                          int32_t *ids, int32_t *targets)
{
    const shard_windows *in = find_shard(windows, number);
    uint64_t within = number - in->first;
    const uint64_t document = find_document(in, &within, context);
    const uint64_t first = kvsi_shard_start(in->shard, document) + within * context;
    const uint64_t left = kvsi_shard_start(in->shard, document + 1) - first - 1;
    const size_t length = left < context ? (size_t)left : context;

    kvsi_shard_read(in->shard, first, length, ids);
    kvsi_shard_read(in->shard, first + 1, length, targets);
    return length;
}

static kvs_status draw(size_t *length, const kvs_data *base, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const corpus_data *data = (const corpus_data *)base;
    const kvs_split split = random->purpose == KVSI_RANDOM_EVAL ? KVS_SPLIT_VALID : KVS_SPLIT_TRAIN;
    const split_windows *windows = &data->splits[split];
    const uint64_t epoch = random->index / windows->count;
    uint64_t number = random->index % windows->count;

    (void)err;
    if (split == KVS_SPLIT_TRAIN)
        number = kvsi_shuffle(random->seed, epoch, windows->count, number);
    *length = read_window(windows, number, data->context, ids, targets);
    for (size_t i = 0; i < *length; i++)
        scored[i] = 0;
    return KVS_OK;
}

static json_t *describe(const kvs_data *base)
{
    const corpus_data *data = (const corpus_data *)base;
    const kvs_corpus_info *info = &data->corpus->record.info;

    return json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "name", base->ops->name, "path",
                     data->corpus->path, "vocab", (json_int_t)info->vocab, "context",
                     (json_int_t)data->context, "train_tokens",
                     (json_int_t)info->split[KVS_SPLIT_TRAIN].tokens, "train_windows",
                     (json_int_t)data->splits[KVS_SPLIT_TRAIN].count, "valid_tokens",
                     (json_int_t)info->split[KVS_SPLIT_VALID].tokens, "valid_windows",
                     (json_int_t)data->splits[KVS_SPLIT_VALID].count);
}

static void release(kvs_data *base)
{
    corpus_data *data = (corpus_data *)base;

    for (int s = 0; s < KVSI_SPLITS; s++) {
        const split_windows *windows = &data->splits[s];

        for (size_t i = 0; i < windows->shard_count; i++)
            kvsi_free(windows->shards[i].marks);
        kvsi_free(windows->shards);
    }
    kvsi_free(data);
}

static const kvsi_data_ops corpus_ops = {
    .name = "corpus", .draw = draw, .describe = describe, .release = release};

/* ---- creation -------------------------------------------------------------------------------- */

static kvs_status check_splits(const kvs_corpus *corpus, kvs_err *err)
{
    const kvs_split_info *split = corpus->record.info.split;

    if (split[KVS_SPLIT_TRAIN].longest < 2)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' has no document of 2 tokens or more to train on: nothing to predict",
                         corpus->path);
    if (split[KVS_SPLIT_VALID].shards == 0)
        return kvsi_fail(err, KVS_E_INVALID, "'%s' has no validation split; training needs one",
                         corpus->path);
    if (split[KVS_SPLIT_VALID].longest < 2)
        return kvsi_fail(err, KVS_E_INVALID,
                         "the validation split of '%s' has no document of 2 tokens or more: "
                         "nothing to predict",
                         corpus->path);
    return KVS_OK;
}

static void set_sizes(corpus_data *data)
{
    const kvs_corpus_info *info = &data->corpus->record.info;
    const kvs_split_info *train = &info->split[KVS_SPLIT_TRAIN];
    const kvs_split_info *valid = &info->split[KVS_SPLIT_VALID];
    const uint64_t longest =
        (train->longest > valid->longest ? train->longest : valid->longest) - 1;

    data->base.vocab = info->vocab;
    data->base.max_tokens = longest < data->context ? (size_t)longest : data->context;
    data->base.mean_tokens =
        (double)(train->tokens - train->documents) / (double)data->splits[KVS_SPLIT_TRAIN].count;
}

kvs_status kvs_data_create_corpus(kvs_data **out, const kvs_corpus *corpus, size_t context,
                                  kvs_err *err)
{
    corpus_data *data = NULL;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(corpus);
    if (context < 1)
        return kvsi_fail(err, KVS_E_INVALID, "context is '%zu', expected at least 1", context);
    TRY_OUT(check_splits(corpus, err));
    data = kvsi_alloc(1, sizeof *data);
    if (!data) {
        st = kvsi_no_memory(err, "the data of '%s'", corpus->path);
        goto out;
    }
    data->base.ops = &corpus_ops;
    data->corpus = corpus;
    data->context = context;
    for (int s = 0; s < KVSI_SPLITS; s++)
        TRY_OUT(mark_split(&data->splits[s], corpus, (kvs_split)s, context, err));
    set_sizes(data);
    *out = &data->base;
    data = NULL;
out:
    if (data)
        release(&data->base);
    return st;
}
