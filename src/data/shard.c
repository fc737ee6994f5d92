/* Reads shards: the file is mapped and checked, so that no later access can leave it. */
#include "data/shard.h"

#include "base/checksum.h"
#include "base/memory.h"

#include <stddef.h>
#include <string.h>

const char kvsi_shard_magic[8] = {'k', 'v', 's', 't', 'o', 'k', 'e', 'n'};

enum { LLMC_HEADER = 256 * sizeof(int32_t) };

static const struct {
    int32_t magic, version;
    size_t id_bytes;
} llmc_kinds[] = {{20240520, 1, 2}, {20240801, 7, 4}};

enum { LLMC_KINDS = sizeof llmc_kinds / sizeof *llmc_kinds };

const char *kvsi_shard_format_name(kvsi_shard_format format)
{
    static const char *const names[] = {[KVSI_SHARD_OWN] = "kvshift",
                                        [KVSI_SHARD_LLMC] = "llm.c",
                                        [KVSI_SHARD_NANOGPT] = "nanoGPT"};

    return names[format];
}

/* ---- the three formats ----------------------------------------------------------------------- */

static kvs_status check_own_header(const kvsi_shard *shard, const kvsi_shard_header *h,
                                   size_t vocab, kvs_err *err)
{
    const char *path = shard->path;

    if (h->version != KVSI_SHARD_VERSION)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'%s' has version %u, expected %d", path,
                         (unsigned)h->version, KVSI_SHARD_VERSION);
    if (h->id_bytes != 2 && h->id_bytes != 4)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has ids of %u bytes, expected 2 or 4", path,
                         (unsigned)h->id_bytes);
    if (h->vocab < 1 || h->vocab > INT32_MAX)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has a vocabulary of %llu, expected 1 to %d", path,
                         (unsigned long long)h->vocab, INT32_MAX);
    if (vocab && h->vocab != vocab)
        return kvsi_fail(err, KVS_E_INVALID, "'%s' has a vocabulary of %llu, expected %zu", path,
                         (unsigned long long)h->vocab, vocab);
    return KVS_OK;
}

static kvs_status read_own(kvsi_shard *shard, size_t vocab, kvs_err *err)
{
    kvsi_shard_header h;
    uint64_t ids, starts, size;

    if (shard->map.size < sizeof h)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' has %zu bytes, expected a header of %zu",
                         shard->path, shard->map.size, sizeof h);
    memcpy(&h, shard->map.data, sizeof h);
    TRY(check_own_header(shard, &h, vocab, err));
    if (__builtin_mul_overflow(h.tokens, (uint64_t)h.id_bytes, &ids) ||
        __builtin_add_overflow(ids, UINT64_C(7), &ids) ||
        __builtin_mul_overflow(h.documents, (uint64_t)sizeof(uint64_t), &starts) ||
        __builtin_add_overflow(ids & ~UINT64_C(7), starts, &size) ||
        __builtin_add_overflow(size, (uint64_t)sizeof h, &size) || size != shard->map.size)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' has %zu bytes, which do not fit %llu tokens in %llu documents",
                         shard->path, shard->map.size, (unsigned long long)h.tokens,
                         (unsigned long long)h.documents);
    shard->format = KVSI_SHARD_OWN;
    shard->vocab = (size_t)h.vocab;
    shard->id_bytes = h.id_bytes;
    shard->tokenizer_hash = h.tokenizer_hash;
    shard->tokens = h.tokens;
    shard->documents = h.documents;
    shard->checksum = h.checksum;
    shard->ids = shard->map.data + sizeof h;
    shard->starts = (const uint64_t *)(const void *)(shard->ids + (ids & ~UINT64_C(7)));
    return KVS_OK;
}

/* Which llm.c format it is; LLMC_KINDS = none. */
static size_t llmc_kind(const kvsi_shard *shard)
{
    int32_t words[2] = {0, 0};
    size_t kind = 0;

    if (shard->map.size >= LLMC_HEADER)
        memcpy(words, shard->map.data, sizeof words);
    while (kind < LLMC_KINDS &&
           (words[0] != llmc_kinds[kind].magic || words[1] != llmc_kinds[kind].version))
        kind++;
    return kind;
}

static kvs_status read_llmc(kvsi_shard *shard, size_t id_bytes, kvs_err *err)
{
    const size_t left = shard->map.size - LLMC_HEADER;
    int32_t tokens;

    memcpy(&tokens, shard->map.data + 2 * sizeof tokens, sizeof tokens);
    if (tokens < 0 || left % id_bytes != 0 || (size_t)tokens != left / id_bytes)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' claims %d tokens of %zu bytes, but %zu bytes follow its header",
                         shard->path, (int)tokens, id_bytes, left);
    shard->format = KVSI_SHARD_LLMC;
    shard->id_bytes = id_bytes;
    shard->tokens = (uint64_t)tokens;
    shard->ids = shard->map.data + LLMC_HEADER;
    return KVS_OK;
}

static kvs_status read_bare(kvsi_shard *shard, kvs_err *err)
{
    if (shard->map.size % 2 != 0)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' has %zu bytes, which is not a whole number of 16-bit ids",
                         shard->path, shard->map.size);
    shard->format = KVSI_SHARD_NANOGPT;
    shard->id_bytes = 2;
    shard->tokens = shard->map.size / 2;
    shard->ids = shard->map.data;
    return KVS_OK;
}

static kvs_status read_header(kvsi_shard *shard, size_t vocab, kvs_err *err)
{
    const size_t kind = llmc_kind(shard);
    const size_t magic = sizeof kvsi_shard_magic;

    if (shard->map.size >= magic && memcmp(shard->map.data, kvsi_shard_magic, magic) == 0)
        return read_own(shard, vocab, err);
    if (!vocab)
        return kvsi_fail(
            err, KVS_E_INVALID,
            "'%s' is not a kvshift shard; to read it as %s's ids, give the size of its vocabulary",
            shard->path, kind < LLMC_KINDS ? "llm.c" : "nanoGPT");
    if (vocab > INT32_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "vocabulary is '%zu', expected at most %d", vocab,
                         INT32_MAX);
    if (kind < LLMC_KINDS)
        TRY(read_llmc(shard, llmc_kinds[kind].id_bytes, err));
    else
        TRY(read_bare(shard, err));
    shard->vocab = vocab;
    shard->documents = 1;
    return KVS_OK;
}

/* ---- contents -------------------------------------------------------------------------------- */

static kvs_status check_starts(kvsi_shard *shard, kvs_err *err)
{
    if (shard->tokens == 0 || shard->documents == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' contains no tokens", shard->path);
    if (kvsi_shard_start(shard, 0) != 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s': document 0 starts at token %llu, expected 0",
                         shard->path, (unsigned long long)kvsi_shard_start(shard, 0));
    for (uint64_t d = 0; d < shard->documents; d++) {
        const uint64_t from = kvsi_shard_start(shard, d), to = kvsi_shard_start(shard, d + 1);

        if (to <= from || to > shard->tokens)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s': document %llu goes from token %llu to %llu of %llu, expected "
                             "increasing starts",
                             shard->path, (unsigned long long)d, (unsigned long long)from,
                             (unsigned long long)to, (unsigned long long)shard->tokens);
        shard->longest = to - from > shard->longest ? to - from : shard->longest;
    }
    return KVS_OK;
}

static uint32_t id_at(const kvsi_shard *shard, uint64_t token)
{
    uint16_t narrow;
    uint32_t wide;

    if (shard->id_bytes == 4) {
        memcpy(&wide, shard->ids + 4 * token, sizeof wide);
        return wide;
    }
    memcpy(&narrow, shard->ids + 2 * token, sizeof narrow);
    return narrow;
}

static kvs_status check_ids(const kvsi_shard *shard, kvs_err *err)
{
    enum { AT_ONCE = 4096 }; /* a simple maximum, which compilers vectorize */

    for (uint64_t from = 0; from < shard->tokens; from += AT_ONCE) {
        const uint64_t left = shard->tokens - from, to = from + (left < AT_ONCE ? left : AT_ONCE);
        uint32_t greatest = 0;

        for (uint64_t t = from; t < to; t++) {
            const uint32_t id = id_at(shard, t);

            greatest = id > greatest ? id : greatest;
        }
        if (greatest >= shard->vocab)
            return kvsi_fail(err, KVS_E_FORMAT,
                             "'%s' has id %u between tokens %llu and %llu, expected ids below its "
                             "vocabulary of %zu",
                             shard->path, (unsigned)greatest, (unsigned long long)from,
                             (unsigned long long)to - 1, shard->vocab);
    }
    return KVS_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

static kvs_status map_file(kvsi_shard *shard, kvs_err *err)
{
    const kvs_status st = kvsi_mapping_open(&shard->map, shard->path, err);

    if (st == KVS_OK && shard->map.size == 0)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' is empty, expected token ids", shard->path);
    return st;
}

kvs_status kvsi_shard_open(kvsi_shard *shard, const char *path, size_t vocab, kvs_err *err)
{
    kvsi_shard made = {.path = kvsi_strdup(path)};
    kvs_status st;

    *shard = (kvsi_shard){0};
    if (!made.path)
        return kvsi_no_memory(err, "'%s'", path);
    TRY_OUT(map_file(&made, err));
    TRY_OUT(read_header(&made, vocab, err));
    TRY_OUT(check_starts(&made, err));
    TRY_OUT(check_ids(&made, err));
    *shard = made;
    made = (kvsi_shard){0};
out:
    kvsi_shard_close(&made);
    return st;
}

void kvsi_shard_close(kvsi_shard *shard)
{
    kvsi_mapping_close(&shard->map);
    kvsi_free(shard->path);
    *shard = (kvsi_shard){0};
}

kvs_status kvsi_shard_verify(const kvsi_shard *shard, kvs_err *err)
{
    const size_t header = sizeof(kvsi_shard_header);
    kvsi_checksum_stream *sum = NULL;
    kvs_status st;
    uint64_t found;

    if (shard->format != KVSI_SHARD_OWN)
        return KVS_OK;
    TRY_OUT(kvsi_checksum_create(&sum, err));
    kvsi_checksum_add(sum, shard->map.data + header, shard->map.size - header);
    kvsi_checksum_add(sum, shard->map.data, offsetof(kvsi_shard_header, checksum));
    found = kvsi_checksum_value(sum);
    if (found != shard->checksum)
        st = kvsi_fail(err, KVS_E_FORMAT,
                       "'%s' is damaged: expected checksum %016llx, found %016llx", shard->path,
                       (unsigned long long)shard->checksum, (unsigned long long)found);
out:
    kvsi_checksum_free(sum);
    return st;
}

uint64_t kvsi_shard_start(const kvsi_shard *shard, uint64_t document)
{
    if (document >= shard->documents)
        return shard->tokens;
    return shard->starts ? shard->starts[document] : 0;
}

void kvsi_shard_read(const kvsi_shard *shard, uint64_t first, size_t count, int32_t *ids)
{
    for (size_t i = 0; i < count; i++)
        ids[i] = (int32_t)id_at(shard, first + i);
}
