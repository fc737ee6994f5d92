/* How the block is cut: buckets cover every number once and keep to their unit and group, pieces of
 * all ranks cover every bucket once, shares every matrix once and small tensors every time. */
#include "base/memory.h"
#include "support.h"

#include <string.h>

static const kvs_model_config kinds[] = {
    {.layers = 3},
    {.body = KVS_BODY_GPT2, .tied = 1, .layers = 1},
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

static void check_buckets(const kvsi_share *s, const kvsi_layout *layout)
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
    for (size_t u = 0; u < s->units; u++)
        for (size_t b = s->first_bucket[u]; b < s->first_bucket[u + 1]; b++)
            assert_int_equal(kvsi_unit_at(s, s->bucket[b].all.from), u);
}

static void check_units(const kvsi_share *s, const kvsi_layout *layout,
                        const kvs_model_config *config)
{
    for (size_t i = 0; i < layout->count; i++) {
        const kvsi_parameter *p = &layout->list[i];
        const int outside = p->role == KVSI_EMBEDDING || p->role == KVSI_POSITION;
        const size_t unit = outside                ? KVSI_UNIT_EMBEDDING
                            : p->role == KVSI_HEAD ? kvsi_unit_of_head(config)
                                                   : kvsi_unit_of_layer(p->layer);

        if (kvsi_group_of(p->role) != KVSI_MATRICES)
            continue;
        assert_int_equal(kvsi_unit_at(s, p->offset), unit);
        assert_int_equal(kvsi_unit_at(s, p->offset + p->count - 1), unit);
    }
}

/* Marks in `held` what the share of one rank has. */
static void mark_share(unsigned char *held, const kvsi_share *s, size_t total)
{
    unsigned char *share = kvsi_alloc(s->total, 1);
    const kvsi_range all = {0, total};

    for (size_t b = 0; b < s->buckets; b++) {
        const kvsi_overlap own = kvsi_share_overlap(s, &s->bucket[b], all);

        assert_true(own.at + own.count <= s->total);
        for (size_t i = 0; i < own.count; i++) {
            held[own.from + i]++;
            assert_int_equal(share[own.at + i]++, 0);
        }
    }
    for (size_t i = 0; i < s->total; i++)
        assert_int_equal(share[i], 1); /* no gaps */
    kvsi_free(share);
}

static void every_number_has_its_place(void **state)
{
    (void)state;
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
        for (size_t ranks = 1; ranks <= 7; ranks++) {
            kvs_model_config config;
            kvsi_layout layout = make_layout(&kinds[k], &config);
            const size_t total = kvsi_layout_total(&layout);
            unsigned char *held = kvsi_alloc(total, 1);

            for (size_t r = 0; r < ranks; r++) {
                kvsi_share s;

                assert_int_equal(kvsi_share_init(&s, &layout, config.layers, ranks, r, NULL),
                                 KVS_OK);
                check_buckets(&s, &layout);
                check_units(&s, &layout, &config);
                mark_share(held, &s, total);
                kvsi_share_release(&s);
            }
            for (size_t i = 0; i < total; i++)
                assert_int_equal(held[i], i < layout.group_start[KVSI_GAINS] ? 1 : ranks);
            kvsi_free(held);
            kvsi_layout_release(&layout);
        }
}

/* What makes sums over grains the same for 1, 2 and 4 ranks. */
static void grains_do_not_depend_on_the_ranks(void **state)
{
    kvs_model_config config;
    kvsi_layout layout = make_layout(&kinds[2], &config);
    kvsi_share one, other;

    (void)state;
    assert_int_equal(kvsi_share_init(&one, &layout, config.layers, 1, 0, NULL), KVS_OK);
    assert_true(one.first_bucket[one.units] > one.units); /* some units have several buckets */
    for (size_t ranks = 2; ranks <= KVSI_SLICES; ranks *= 2)
        for (size_t r = 0; r < ranks; r++) {
            assert_int_equal(kvsi_share_init(&other, &layout, config.layers, ranks, r, NULL),
                             KVS_OK);
            assert_int_equal(other.buckets, one.buckets);
            for (size_t b = 0; b < one.buckets; b++) {
                const size_t grains = KVSI_SLICES / ranks;
                const kvsi_range piece = kvsi_bucket_piece(&other, &other.bucket[b]);
                const kvsi_range first = kvsi_bucket_grain(&one.bucket[b], r * grains);
                size_t count = 0;

                assert_int_equal(other.bucket[b].grain, one.bucket[b].grain);
                for (size_t g = 0; g < grains; g++)
                    count += kvsi_bucket_grain(&one.bucket[b], r * grains + g).count;
                assert_int_equal(piece.from, first.from);
                assert_int_equal(piece.count, count);
            }
            kvsi_share_release(&other);
        }
    kvsi_share_release(&one);
    kvsi_layout_release(&layout);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_number_has_its_place),
        cmocka_unit_test(grains_do_not_depend_on_the_ranks),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
