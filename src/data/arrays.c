/* kvs_data_create_arrays: data from arrays of the caller.  The training stream has every sequence
 * of `train` once per epoch, in an order that depends on the seed and the epoch.  The evaluation
 * stream repeats the sequences of `valid` in their order. */
#include "base/checksum.h"
#include "base/math.h"
#include "base/memory.h"
#include "data/batch.h"
#include "data/data.h"
#include "data/shuffle.h"

enum { TRAIN, VALID, PARTS };

typedef struct arrays_data {
    kvs_data base;
    kvs_batch part[PARTS]; /* the arrays are borrowed; a part that was not given has 0 sequences */
    uint64_t checksum[PARTS];
} arrays_data;

/* ---- the handle ------------------------------------------------------------------------------ */

static kvs_status draw(size_t *length, const kvs_data *base, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const arrays_data *data = (const arrays_data *)base;
    const int which = random->purpose == KVSI_RANDOM_EVAL ? VALID : TRAIN;
    const kvs_batch *part = &data->part[which];
    uint64_t number;

    *length = 0;
    if (part->sequences == 0)
        return kvsi_fail(err, KVS_E_INVALID, "the arrays have no sequences to evaluate");
    number = random->index % part->sequences;
    if (which == TRAIN)
        number =
            kvsi_shuffle(random->seed, random->index / part->sequences, part->sequences, number);
    *length = kvsi_batch_copy(ids, targets, scored, part, (size_t)number);
    return KVS_OK;
}

static size_t rows_of(const kvs_batch *part)
{
    return part->sequences > 0 ? part->starts[part->sequences] : 0;
}

/* The settings have checksums of the arrays, so that a checkpoint of other data is recognized. */
static json_t *describe(const kvs_data *base)
{
    const arrays_data *data = (const arrays_data *)base;
    char sums[PARTS][KVSI_CHECKSUM_TEXT];

    for (size_t i = 0; i < PARTS; i++)
        kvsi_checksum_print(sums[i], data->checksum[i]);
    return json_pack("{s:s, s:I, s:I, s:I, s:s, s:I, s:I, s:s}", "name", base->ops->name, "vocab",
                     (json_int_t)base->vocab, "train_sequences",
                     (json_int_t)data->part[TRAIN].sequences, "train_rows",
                     (json_int_t)rows_of(&data->part[TRAIN]), "train_checksum", sums[TRAIN],
                     "valid_sequences", (json_int_t)data->part[VALID].sequences, "valid_rows",
                     (json_int_t)rows_of(&data->part[VALID]), "valid_checksum", sums[VALID]);
}

static void release(kvs_data *base)
{
    kvsi_free(base);
}

static const kvsi_data_ops arrays_ops = {
    .name = "arrays", .draw = draw, .describe = describe, .release = release};

/* ---- creation -------------------------------------------------------------------------------- */

static size_t longest_of(const kvs_batch *part)
{
    size_t most = 0;

    for (size_t s = 0; s < part->sequences; s++)
        most = kvsi_max(most, part->starts[s + 1] - part->starts[s]);
    return most;
}

/* Returns the smallest vocabulary that has all ids and targets. */
static size_t vocab_of(const kvs_batch *part)
{
    int32_t most = 0;

    for (size_t row = 0; row < rows_of(part); row++) {
        most = part->ids[row] > most ? part->ids[row] : most;
        most = part->targets && part->targets[row] > most ? part->targets[row] : most;
    }
    return (size_t)most + 1;
}

/* Computes the checksum of the sequences as draw() returns them.  A mask and targets of -1 in the
 * same rows therefore give the same checksum. */
static kvs_status sum_part(uint64_t *out, const kvs_batch *part, size_t longest, kvs_err *err)
{
    int32_t *ids = kvsi_alloc(longest, sizeof *ids), *targets = kvsi_alloc(longest, sizeof *ids);
    uint8_t *scored = kvsi_alloc(longest, sizeof *scored);
    kvsi_checksum_stream *stream = NULL;
    kvs_status st;

    TRY_OUT(kvsi_checksum_create(&stream, err));
    if (!ids || !targets || !scored) {
        st = kvsi_no_memory(err, "a sequence of %zu tokens", longest);
        goto out;
    }
    for (size_t s = 0; s < part->sequences; s++) {
        const uint64_t length = kvsi_batch_copy(ids, targets, scored, part, s);

        kvsi_checksum_add(stream, &length, sizeof length);
        kvsi_checksum_add(stream, ids, length * sizeof *ids);
        kvsi_checksum_add(stream, targets, length * sizeof *targets);
        kvsi_checksum_add(stream, scored, length);
    }
    *out = kvsi_checksum_value(stream);
out:
    kvsi_checksum_free(stream);
    kvsi_free(ids);
    kvsi_free(targets);
    kvsi_free(scored);
    return st;
}

/* Checks the batches of the caller, stores them as parts, and sets the sizes and checksums. */
static kvs_status take_arrays(arrays_data *data, const kvs_batch *train, const kvs_batch *valid,
                              size_t vocab, kvs_err *err)
{
    static const char *const names[PARTS] = {"train", "valid"};
    const kvs_batch *const given[PARTS] = {train, valid};

    if (vocab > (size_t)INT32_MAX + 1)
        return kvsi_fail(err, KVS_E_INVALID, "vocab is %zu, expected at most %zu", vocab,
                         (size_t)INT32_MAX + 1);
    data->base.vocab = vocab;
    for (size_t i = 0; i < PARTS && given[i]; i++) {
        const kvsi_batch_limits limits = {.what = names[i], .vocab = vocab, .each_has_target = 1};
        kvs_batch *part = &data->part[i];
        size_t longest;

        TRY(kvsi_batch_take(part, given[i], &limits, err));
        longest = longest_of(part);
        TRY(sum_part(&data->checksum[i], part, longest, err));
        data->base.max_tokens = kvsi_max(data->base.max_tokens, longest);
        if (vocab == 0)
            data->base.vocab = kvsi_max(data->base.vocab, vocab_of(part));
    }
    data->base.mean_tokens =
        (double)rows_of(&data->part[TRAIN]) / (double)data->part[TRAIN].sequences;
    data->base.no_evaluation = !valid;
    return KVS_OK;
}

kvs_status kvs_data_create_arrays(kvs_data **out, const kvs_batch *train, const kvs_batch *valid,
                                  size_t vocab, kvs_err *err)
{
    arrays_data *data;
    kvs_status st;

    NEED(out);
    *out = NULL;
    NEED(train);
    data = kvsi_alloc(1, sizeof *data);
    if (!data)
        return kvsi_no_memory(err, "data");
    data->base.ops = &arrays_ops;
    TRY_OUT(take_arrays(data, train, valid, vocab, err));
    *out = &data->base;
    return KVS_OK;
out:
    release(&data->base);
    return st;
}
