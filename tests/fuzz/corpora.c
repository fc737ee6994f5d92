/* Opens and uses a corpus from a hostile file or folder. */
#include "data/corpus.h"
#include "data/data.h"
#include "fuzz.h"

enum { CONTEXT = 4, ROOM = 8, SEQUENCES = 3 };

static void read_split(const kvs_corpus *corpus, kvs_split split)
{
    const kvs_split_info *info = &kvs_corpus_get_info(corpus)->split[split];
    const size_t vocab = kvs_corpus_get_info(corpus)->vocab;
    int32_t ids[ROOM];

    for (uint64_t first = 0; first < info->tokens; first += ROOM) {
        const size_t got = kvs_corpus_read(ids, ROOM, corpus, split, first);

        for (size_t i = 0; i < got; i++)
            fuzz_expect(ids[i] >= 0 && (size_t)ids[i] < vocab, "ids are within the vocabulary");
    }
    for (uint64_t i = 0; i <= info->documents; i++)
        kvs_corpus_document(ids, ROOM, corpus, split, i);
    kvs_corpus_windows(corpus, split, CONTEXT);
}

static void draw(const kvs_corpus *corpus)
{
    kvsi_batch_buffer batch = {0};
    kvs_data *task;

    if (kvs_data_create_corpus(&task, corpus, CONTEXT, NULL) == KVS_OK &&
        kvsi_batch_buffer_init(&batch, task, SEQUENCES, NULL) == KVS_OK) {
        kvsi_batch_fill(&batch, task, 1, KVSI_RANDOM_DATA, 0, SEQUENCES, NULL);
        kvsi_batch_fill(&batch, task, 1, KVSI_RANDOM_EVAL, 0, SEQUENCES, NULL);
    }
    kvsi_batch_buffer_release(&batch);
    kvs_data_free(task);
}

kvs_status fuzz_use_corpus(const char *path, size_t vocab, kvs_err *err)
{
    const kvs_corpus_options options = {.size = sizeof(kvs_corpus_options), .vocab = vocab};
    kvs_tokenizer *tokenizer;
    kvs_corpus *corpus;
    const kvs_status st = kvs_corpus_open(&corpus, path, &options, err);

    if (st != KVS_OK)
        return st;
    read_split(corpus, KVS_SPLIT_TRAIN);
    read_split(corpus, KVS_SPLIT_VALID);
    draw(corpus);
    kvs_corpus_check(corpus, NULL);
    if (kvs_corpus_load_tokenizer(&tokenizer, corpus, NULL) == KVS_OK)
        kvs_tokenizer_free(tokenizer);
    kvs_corpus_close(corpus);
    return st;
}
