#include "cli/show_task.h"

#include "base/memory.h"

#include <stdio.h>

typedef struct buffers {
    int32_t *ids, *targets;
    uint8_t *scored;
} buffers;

static void print_words(const char *label, const kvs_task *task, const int32_t *ids, size_t count)
{
    printf("%-9s", label);
    for (size_t i = 0; i < count; i++) {
        char word[64];

        if (ids[i] >= 0)
            kvs_task_word(task, ids[i], word, sizeof word);
        printf(" %s", ids[i] >= 0 ? word : "-");
    }
    printf("\n");
}

static kvs_status print_text(const kvs_tokenizer *tokenizer, const int32_t *ids, size_t count,
                             kvs_err *err)
{
    char *text = NULL;
    size_t size;
    kvs_status st;

    TRY_OUT(kvs_tokenizer_decode(tokenizer, ids, count, &text, &size, err));
    fwrite(text, 1, size, stdout);
    printf("\n");
out:
    kvs_text_free(text);
    return st;
}

static void print_scored(const buffers *b, const kvs_task *task, size_t count)
{
    printf("%-9s", "scored");
    for (size_t i = 0; i < count; i++) {
        char word[64];

        if (!b->scored[i])
            continue;
        kvs_task_word(task, b->targets[i], word, sizeof word);
        printf(" %zu:%s", i, word);
    }
    printf("\n");
}

kvs_status kvsi_show_task(const kvs_task *task, const kvs_tokenizer *tokenizer, uint64_t seed,
                          size_t count, kvs_err *err)
{
    const size_t room = kvs_task_max_length(task);
    buffers b = {kvsi_alloc(room, sizeof *b.ids), kvsi_alloc(room, sizeof *b.targets),
                 kvsi_alloc(room, sizeof *b.scored)};
    kvs_status st = KVS_OK;

    if (!b.ids || !b.targets || !b.scored) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for sequences of %zu tokens", room);
        goto out;
    }
    for (size_t s = 0; s < count; s++) {
        const size_t length =
            kvs_task_sequence(task, seed, KVS_STREAM_TRAIN, s, b.ids, b.targets, b.scored);

        printf("%ssequence %zu, %zu tokens\n", s ? "\n" : "", s, length);
        if (tokenizer) {
            TRY_OUT(print_text(tokenizer, b.ids, length, err));
        } else {
            print_words("fed", task, b.ids, length);
            print_words("target", task, b.targets, length);
        }
        print_scored(&b, task, length);
    }
out:
    kvsi_free(b.ids);
    kvsi_free(b.targets);
    kvsi_free(b.scored);
    return st;
}
