/* The shard layout: buckets cover every parameter once and stay within their block and group; the
 * shards of all ranks cover every matrix once, and every rank has all small tensors. */
#include "base/memory.h"
#include "support.h"

#include <string.h>

static const kvs_model_config kinds[] = {
    {.layers = 3},
    {.body = KVSI_BODY_GPT2, .tied = 1, .layers = 1},
    {.layers = 2, .dim = 512, .ffn = 1400, .vocab = 3001, .heads = 8},
    {.no_norm = 1, .no_mlp = 1},
};

static kvsi_layout make_layout(const kvs_model_config *special, kvs_model_config *config)
{
    const support_sizes sizes = {.vocab = 50, .dim = 32, .ffn = 48, .context = 16};
    kvsi_layout layout;

    *config = support_own_config(special, &sizes);
    assert_int_equal(kvs_model_config_finish(config, NULL), KVS_OK);
    assert_int_equal(kvsi_layout_init(&layout, config, NULL), KVS_OK);
    return layout;
}

static void check_buckets(const kvsi_shard_layout *s, const kvsi_layout *layout)
{
    size_t at = 0;

    for (size_t b = 0; b < s->buckets; b++) {
        const kvsi_bucket *bucket = &s->bucket[b];

        assert_int_equal(bucket->all.from, at);
        at += bucket->all.count;
        assert_true(bucket->all.from >= layout->group_start[bucket->group] &&
                    at <= layout->group_start[bucket->group + 1]);
        assert_true(bucket->all.count <= s->largest_bucket);
    }
    assert_int_equal(at, kvsi_layout_total(layout));
    for (size_t i = 0; i < s->blocks; i++)
        for (size_t b = s->first_bucket[i]; b < s->first_bucket[i + 1]; b++)
            assert_int_equal(kvsi_block_at(s, s->bucket[b].all.from), i);
}

static void check_blocks(const kvsi_shard_layout *s, const kvsi_layout *layout,
                         const kvs_model_config *config)
{
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        const int outside = p->role == KVSI_EMBEDDING || p->role == KVSI_POSITION;
        const size_t block = outside                ? KVSI_BLOCK_EMBEDDING
                             : p->role == KVSI_HEAD ? kvsi_block_of_head(config)
                                                    : kvsi_block_of_layer(p->layer);

        if (kvsi_group_of(p->role) != KVSI_MATRICES)
            continue;
        assert_int_equal(kvsi_block_at(s, p->offset), block);
        assert_int_equal(kvsi_block_at(s, p->offset + p->count - 1), block);
    }
}

/* Counts in `held` what the sharded storage of one rank has. */
static void mark_shards(unsigned char *held, const kvsi_shard_layout *s, size_t total)
{
    unsigned char *stored = kvsi_alloc(s->total, 1);
    const kvsi_range all = {0, total};

    for (size_t b = 0; b < s->buckets; b++) {
        const kvsi_overlap own = kvsi_shard_overlap(s, &s->bucket[b], all);

        assert_true(own.at + own.count <= s->total);
        for (size_t i = 0; i < own.count; i++) {
            held[own.from + i]++;
            assert_int_equal(stored[own.at + i]++, 0);
        }
    }
    for (size_t i = 0; i < s->total; i++)
        assert_int_equal(stored[i], 1); /* no gaps */
    kvsi_free(stored);
}

static void every_parameter_is_stored_once(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t ranks = 1; ranks <= 7; ranks++) {
            kvs_model_config config;
            kvsi_layout layout = make_layout(&kinds[k], &config);
            const size_t total = kvsi_layout_total(&layout);
            unsigned char *held = kvsi_alloc(total, 1);

            for (size_t r = 0; r < ranks; r++) {
                kvsi_shard_layout s;

                assert_int_equal(kvsi_shard_layout_init(&s, &layout, config.layers, ranks, r, NULL),
                                 KVS_OK);
                check_buckets(&s, &layout);
                check_blocks(&s, &layout, &config);
                mark_shards(held, &s, total);
                kvsi_shard_layout_release(&s);
            }
            for (size_t i = 0; i < total; i++)
                assert_int_equal(held[i], i < layout.group_start[KVSI_GAINS] ? 1 : ranks);
            kvsi_free(held);
            kvsi_layout_release(&layout);
        }
}

/* So that sums over chunks are the same for 1, 2 and 4 ranks. */
static void chunks_do_not_depend_on_the_ranks(void **state)
{
    kvs_model_config config;
    kvsi_layout layout = make_layout(&kinds[2], &config);
    kvsi_shard_layout one, other;

    (void)state;
    assert_int_equal(kvsi_shard_layout_init(&one, &layout, config.layers, 1, 0, NULL), KVS_OK);
    assert_true(one.first_bucket[one.blocks] > one.blocks); /* some blocks have several buckets */
    for (size_t ranks = 2; ranks <= KVSI_SLICES; ranks *= 2)
        for (size_t r = 0; r < ranks; r++) {
            assert_int_equal(kvsi_shard_layout_init(&other, &layout, config.layers, ranks, r, NULL),
                             KVS_OK);
            assert_int_equal(other.buckets, one.buckets);
            for (size_t b = 0; b < one.buckets; b++) {
                const size_t chunks = KVSI_SLICES / ranks;
                const kvsi_range shard = kvsi_bucket_shard(&other, &other.bucket[b]);
                const kvsi_range first = kvsi_bucket_chunk(&one.bucket[b], r * chunks);
                size_t count = 0;

                assert_int_equal(other.bucket[b].chunk, one.bucket[b].chunk);
                for (size_t g = 0; g < chunks; g++)
                    count += kvsi_bucket_chunk(&one.bucket[b], r * chunks + g).count;
                assert_int_equal(shard.from, first.from);
                assert_int_equal(shard.count, count);
            }
            kvsi_shard_layout_release(&other);
        }
    kvsi_shard_layout_release(&one);
    kvsi_layout_release(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_parameter_is_stored_once),
        cmocka_unit_test(chunks_do_not_depend_on_the_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
