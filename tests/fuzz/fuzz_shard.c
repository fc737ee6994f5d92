/* Token files: ours, llm.c's and nanoGPT's. */
#include "data/shard.h"
#include "fuzz.h"

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    enum { VOCAB = 300 };

    fuzz_write("file.bin", data, size);
    if (fuzz_use_corpus("file.bin", 0, err) == KVS_OK)
        return KVS_OK;
    return fuzz_use_corpus("file.bin", VOCAB, err);
}

static void seed_own(const char *name, size_t vocab)
{
    static const int32_t ids[] = {1, 2, 3, 4, 5, 6, 7};
    kvsi_shard_writer *writer;
    kvsi_text file = {0};
    uint64_t checksum;

    fuzz_expect(kvsi_shard_writer_open(&writer, "shard", vocab, 77, NULL) == KVS_OK,
                "shards can be made");
    for (size_t length = 1; length < 8; length += 3) {
        fuzz_expect(kvsi_shard_writer_add(writer, ids, length, NULL) == KVS_OK, "they can grow");
        kvsi_shard_writer_end_document(writer);
    }
    fuzz_expect(kvsi_shard_writer_commit(writer, &checksum, NULL) == KVS_OK, "and be finished");
    fuzz_put_file(&file, "shard");
    fuzz_seed(name, &file);
}

static void seed_llmc(const char *name, uint32_t magic, uint32_t version, size_t id_bytes)
{
    enum { TOKENS = 9, NUMBERS = 256 };
    kvsi_text file = {0};

    put_u32(&file, magic);
    put_u32(&file, version);
    put_u32(&file, TOKENS);
    for (size_t i = 3; i < NUMBERS; i++)
        put_u32(&file, 0);
    for (uint32_t i = 0; i < TOKENS; i++)
        put_bytes(&file, &i, id_bytes);
    fuzz_seed(name, &file);
}

void fuzz_seeds(void)
{
    kvsi_text file = {0};

    seed_own("own-2", 256);
    seed_own("own-4", 100000);
    seed_llmc("llmc-2", 20240520, 1, 2);
    seed_llmc("llmc-4", 20240801, 7, 4);
    put_bytes(&file, "\1\0\2\0\3\0\4\0\5\0", 10);
    fuzz_seed("nanogpt", &file);
}
