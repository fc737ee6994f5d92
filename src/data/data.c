/* The public calls that work on every kind of data, and the functions that draw sequences from it
 * into ragged batches for the trainer. */
#include "data/data.h"

#include "base/memory.h"
#include "base/status.h"
#include "data/batch.h"

#include <stdio.h>

void kvs_data_free(kvs_data *data)
{
    if (data)
        data->ops->release(data);
}

size_t kvs_data_vocab(const kvs_data *data)
{
    return data ? data->vocab : 0;
}

/* Returns the length of the longest input, which must fit the model's context.  A token that is
 * only a target does not count. */
size_t kvs_data_max_length(const kvs_data *data)
{
    return data ? data->max_tokens : 0;
}

size_t kvs_data_sequence(int32_t *ids, int32_t *targets, uint8_t *scored, const kvs_data *data,
                         uint64_t seed, kvs_stream stream, uint64_t index)
{
    const int is_eval = stream == KVS_STREAM_EVAL;
    kvsi_random random;
    size_t length = 0;

    if (!ids || !targets || !scored || !data || (!is_eval && stream != KVS_STREAM_TRAIN))
        return 0;
    kvsi_random_init(&random, seed, is_eval ? KVSI_RANDOM_EVAL : KVSI_RANDOM_DATA, index);
    if (data->ops->draw(&length, data, &random, ids, targets, scored, NULL) != KVS_OK)
        return 0;
    return length;
}

void kvs_task_word(char *out, size_t size, const kvs_data *data, int32_t id)
{
    if (!out || size == 0)
        return;
    if (!data) {
        *out = '\0';
        return;
    }
    if (data->ops->word)
        data->ops->word(data, id, out, size);
    else
        snprintf(out, size, "%d", (int)id);
}

json_t *kvsi_task_describe(const kvs_data *task, const kvsi_settings *table, const void *config)
{
    json_t *object = json_pack("{s:s}", "name", task->ops->name);

    kvsi_settings_to_json(object, table, config, KVSI_RESULT);
    return object;
}

kvs_status kvsi_batch_buffer_init(kvsi_batch_buffer *buffer, const kvs_data *data,
                                  size_t max_sequences, kvs_err *err)
{
    kvsi_batch_buffer made = {.max_sequences = max_sequences};
    size_t starts;

    *buffer = (kvsi_batch_buffer){0};
    if (__builtin_mul_overflow(max_sequences, data->max_tokens, &made.max_tokens) ||
        __builtin_add_overflow(max_sequences, (size_t)1, &starts))
        goto no_memory;
    made.starts = kvsi_alloc(starts, sizeof *made.starts);
    made.ids = kvsi_alloc(made.max_tokens, sizeof *made.ids);
    made.targets = kvsi_alloc(made.max_tokens, sizeof *made.targets);
    made.scored = kvsi_alloc(made.max_tokens, sizeof *made.scored);
    if (!made.starts || !made.ids || !made.targets || !made.scored)
        goto no_memory;
    made.view = (kvs_batch){
        .starts = made.starts, .ids = made.ids, .targets = made.targets, .scored = made.scored};
    *buffer = made;
    return KVS_OK;

no_memory:
    kvsi_batch_buffer_release(&made);
    return kvsi_no_memory(err, "a batch of %zu sequences of %zu tokens", max_sequences,
                          data->max_tokens);
}

void kvsi_batch_buffer_release(kvsi_batch_buffer *buffer)
{
    kvsi_free(buffer->starts);
    kvsi_free(buffer->ids);
    kvsi_free(buffer->targets);
    kvsi_free(buffer->scored);
    *buffer = (kvsi_batch_buffer){0};
}

kvs_status kvsi_batch_fill(kvsi_batch_buffer *buffer, const kvs_data *data, uint64_t seed,
                           kvsi_purpose purpose, uint64_t first, size_t count, kvs_err *err)
{
    size_t row = 0;

    for (size_t s = 0; s < count; s++) {
        kvsi_random random;
        size_t length;

        kvsi_random_init(&random, seed, purpose, first + s);
        TRY(data->ops->draw(&length, data, &random, buffer->ids + row, buffer->targets + row,
                            buffer->scored + row, err));
        row += length;
        buffer->starts[s + 1] = row;
    }
    buffer->view.sequences = count;
    return KVS_OK;
}

void kvsi_batch_fill_from(kvsi_batch_buffer *buffer, const kvs_batch *batch, size_t first,
                          size_t count)
{
    size_t row = 0;

    for (size_t s = 0; s < count; s++) {
        row += kvsi_batch_copy(buffer->ids + row, buffer->targets + row, buffer->scored + row,
                               batch, first + s);
        buffer->starts[s + 1] = row;
    }
    buffer->view.sequences = count;
}
