/* The induction task against its definition, for both samplers: the exact distribution of whole
 * sequences where they can be counted, otherwise of lengths, sources and tokens.
 *
 * Seeds are fixed.  `surprise` converts a chi-square to standard deviations of a normal variable:
 * below 4 is chance, and each test also shows that the closest wrong sampler would be far above. */
#include "base/memory.h"
#include "base/status.h"
#include "data/data.h"
#include "data/tasks/tasks.h"

#include <math.h>
#include <string.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h> /* needs those before it */
/* clang-format on */

enum { FIRST = 11, DRAWS = 20000, CHUNK = 100 };

static const kvsi_induction_sampler SAMPLERS[] = {KVSI_INDUCTION_DIRECT, KVSI_INDUCTION_PAPER};

static kvs_data *make(size_t vocab, size_t pool, size_t max_length, kvsi_loss_rows loss,
                      kvsi_induction_sampler sampler)
{
    const kvsi_induction_config config = {
        .vocab = vocab, .pool = pool, .max_length = max_length, .loss = loss, .sampler = sampler};
    kvs_data *task;
    kvs_err err;

    if (kvsi_induction_create(&task, &config, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return task;
}

/* Calls `see` with sequences 0 .. DRAWS-1: M + 1 tokens and the target. */
typedef void see_sequence(void *user, const int32_t *ids, size_t m, int32_t answer);

static void draw_all(const kvs_data *task, see_sequence *see, void *user)
{
    kvsi_batch_buffer buffer;

    assert_int_equal(kvsi_batch_buffer_init(&buffer, task, CHUNK, NULL), KVS_OK);
    for (uint64_t first = 0; first < DRAWS; first += CHUNK) {
        assert_int_equal(kvsi_batch_fill(&buffer, task, 1, KVSI_RANDOM_DATA, first, CHUNK, NULL),
                         KVS_OK);
        for (size_t s = 0; s < CHUNK; s++) {
            const size_t start = buffer.starts[s], m = buffer.starts[s + 1] - start - 1;

            see(user, buffer.ids + start, m, buffer.targets[start + m]);
        }
    }
    kvsi_batch_buffer_release(&buffer);
}

/* Compares counts with probabilities; rare bins are merged.  Wilson and Hilferty's cube root makes
 * the chi-square normal. */
static double surprise(const double *counts, const double *chances, size_t bins, double draws)
{
    double sum = 0, rare_count = 0, rare_chance = 0, freedom = -1;

    for (size_t i = 0; i <= bins; i++) {
        double count = i < bins ? counts[i] : rare_count;
        double expected = draws * (i < bins ? chances[i] : rare_chance);

        if (i < bins && expected < 5) {
            rare_count += counts[i];
            rare_chance += chances[i];
        } else if (expected > 0) {
            sum += (count - expected) * (count - expected) / expected;
            freedom++;
        } else if (count > 0) {
            return INFINITY; /* impossible */
        }
    }
    return (cbrt(sum / freedom) - (1 - 2 / (9 * freedom))) / sqrt(2 / (9 * freedom));
}

/* P(M = m) for m = 0 .. longest, by the product in its definition, renormalized. */
static void length_chances(double *chances, size_t pool, size_t longest)
{
    double total = 0;

    for (size_t m = 0; m <= longest; m++) {
        chances[m] = m < 2 ? 0 : (double)(m - 1) / (double)(pool - 1);
        for (size_t j = 1; j < m; j++)
            chances[m] *= 1 - (double)(j - 1) / (double)(pool - 1);
        total += chances[m];
    }
    for (size_t m = 0; m <= longest; m++)
        chances[m] /= total;
}

/* ---- whole sequences ------------------------------------------------------------------------- */

/* 5 tokens, a pool of 4, at most 5 long: M is 2 or 3 with weights 1/3 and 4/9 (M = 4 is cut off),
 * hence 3/7 on 20 pairs and 4/7 on 60 triples with 2 sources each. */
enum { TINY_TOKENS = 5, TINY_BINS = 2 * 2 * TINY_TOKENS * TINY_TOKENS * TINY_TOKENS };

static size_t tiny_bin(const int32_t *ids, size_t m, size_t source)
{
    size_t bin = (m - 2) * 2 + source;

    for (size_t i = 0; i < 3; i++)
        bin = bin * TINY_TOKENS + (i < m ? (size_t)(ids[i] - FIRST) : 0);
    return bin;
}

static void count_tiny(void *user, const int32_t *ids, size_t m, int32_t answer)
{
    double *counts = user;

    (void)answer;
    assert_in_range(m, 2, 3);
    counts[tiny_bin(ids, m, ids[m] == ids[0] ? 0 : 1)]++;
}

static void tiny_chances(double *chances, double pair_share)
{
    memset(chances, 0, TINY_BINS * sizeof *chances);
    for (int32_t a = FIRST; a < FIRST + TINY_TOKENS; a++)
        for (int32_t b = FIRST; b < FIRST + TINY_TOKENS; b++)
            for (int32_t c = FIRST; c < FIRST + TINY_TOKENS; c++) {
                const int32_t ids[3] = {a, b, c};

                if (a == b || b == c || a == c)
                    continue;
                chances[tiny_bin(ids, 2, 0)] = pair_share / 20;
                chances[tiny_bin(ids, 3, 0)] = (1 - pair_share) / 120;
                chances[tiny_bin(ids, 3, 1)] = (1 - pair_share) / 120;
            }
}

static void tiny_sequences_have_exact_chances(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        kvs_data *task = make(FIRST + TINY_TOKENS, 4, 5, KVSI_LOSS_ANSWER, SAMPLERS[s]);
        double counts[TINY_BINS] = {0}, chances[TINY_BINS];

        draw_all(task, count_tiny, counts);
        tiny_chances(chances, 3.0 / 7);
        assert_true(fabs(surprise(counts, chances, TINY_BINS, DRAWS)) < 4);
        tiny_chances(chances, 1.0 / 3); /* all longer sequences cut to 3 */
        assert_true(surprise(counts, chances, TINY_BINS, DRAWS) > 8);
        kvs_data_free(task);
    }
}

/* ---- lengths --------------------------------------------------------------------------------- */

static void count_length(void *user, const int32_t *ids, size_t m, int32_t answer)
{
    (void)ids;
    (void)answer;
    ((double *)user)[m]++;
}

static void lengths_follow_the_formula(void **state)
{
    static const struct {
        size_t vocab, pool, max_length, longest;
    } cases[] = {{8000, 512, 512, 510}, {128, 64, 48, 46}, {1000, 128, 16, 14}, {40, 12, 512, 12}};

    (void)state;
    for (size_t i = 0; i < 2 * sizeof cases / sizeof *cases; i++) {
        const size_t pool = cases[i / 2].pool, longest = cases[i / 2].longest;
        kvs_data *task = make(cases[i / 2].vocab, pool, cases[i / 2].max_length, KVSI_LOSS_ANSWER,
                              SAMPLERS[i % 2]);
        double counts[513] = {0}, chances[513] = {0}, sum = 0, mean = 0;

        assert_int_equal(kvs_data_max_length(task), longest + 1);
        draw_all(task, count_length, counts);
        length_chances(chances, pool, longest);
        for (size_t m = 0; m <= longest; m++) {
            sum += chances[m];
            mean += (double)(m + 1) * chances[m];
        }
        assert_true(fabs(sum - 1) < 1e-12);
        assert_true(fabs(task->mean_tokens - mean) < 1e-9);
        assert_true(fabs(surprise(counts, chances, longest + 1, DRAWS)) < 4);
        memmove(chances + 1, chances, longest * sizeof *chances); /* shifted by one */
        assert_true(surprise(counts, chances, longest + 1, DRAWS) > 8);
        kvs_data_free(task);
    }
}

/* Known values for vocabulary 8000 and pool 512; lengths are M + 2. */
static void paper_lengths(void **state)
{
    double chances[511], counts[511], mean = 0, squares = 0, guess = 0, up_to_64 = 0;
    size_t mode = 0;

    (void)state;
    length_chances(chances, 512, 510);
    for (size_t m = 2; m <= 510; m++) {
        mean += (double)(m + 2) * chances[m];
        squares += (double)((m + 2) * (m + 2)) * chances[m];
        guess += chances[m] / (double)(m - 1);
        up_to_64 += m + 2 <= 64 ? chances[m] : 0;
        mode = chances[m] > chances[mode] ? m : mode;
    }
    assert_true(fabs(mean - 31.0) < 0.05);
    assert_true(fabs(sqrt(squares - mean * mean) - 14.4) < 0.2);
    assert_true(fabs(guess - 0.055) < 0.0005);
    assert_true(fabs(up_to_64 - 0.979) < 0.001);
    assert_int_equal(mode + 2, 26);
    for (size_t s = 0; s < 2; s++) {
        kvs_data *task = make(8000, 512, 512, KVSI_LOSS_ANSWER, SAMPLERS[s]);
        double drawn = 0, below = 0;

        memset(counts, 0, sizeof counts);
        draw_all(task, count_length, counts);
        for (size_t m = 2; m <= 510; m++) {
            drawn += counts[m] / DRAWS * (double)(m + 2);
            below += m + 2 <= 64 ? counts[m] / DRAWS : 0;
        }
        assert_true(fabs(drawn - mean) < 4 * 14.4 / sqrt(DRAWS));
        assert_true(fabs(below - up_to_64) < 4 * sqrt(0.021 / DRAWS));
        kvs_data_free(task);
    }
}

/* ---- sources and tokens ---------------------------------------------------------------------- */

enum { SOURCE_M_MAX = 12 };

typedef struct source_counts {
    double at[SOURCE_M_MAX + 1][SOURCE_M_MAX]; /* M, source */
    double of_length[SOURCE_M_MAX + 1];
} source_counts;

static void count_source(void *user, const int32_t *ids, size_t m, int32_t answer)
{
    source_counts *counts = user;
    size_t source = 0;

    (void)answer;
    while (ids[source] != ids[m])
        source++;
    counts->at[m][source]++;
    counts->of_length[m]++;
}

static void sources_are_even_given_the_length(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        kvs_data *task = make(100, SOURCE_M_MAX, 64, KVSI_LOSS_ANSWER, SAMPLERS[s]);
        source_counts counts = {0};
        double even[SOURCE_M_MAX];

        draw_all(task, count_source, &counts);
        for (size_t m = 3; m <= 8; m++) {
            for (size_t i = 0; i < m; i++)
                even[i] = 1 / (double)(m - 1);
            assert_true(fabs(surprise(counts.at[m], even, m - 1, counts.of_length[m])) < 4);
            assert_true(counts.at[m][m - 1] == 0); /* the previous token cannot repeat */
            for (size_t i = 0; i < m; i++)
                even[i] = 1 / (double)m;
            assert_true(surprise(counts.at[m], even, m, counts.of_length[m]) > 8);
        }
        kvs_data_free(task);
    }
}

enum { TOKENS = 29 };

static void count_tokens(void *user, const int32_t *ids, size_t m, int32_t answer)
{
    double(*counts)[TOKENS] = user;

    counts[0][ids[0] - FIRST]++;
    counts[1][ids[m - 1] - FIRST]++;
    counts[2][answer - FIRST]++;
}

static void tokens_are_even(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        kvs_data *task = make(FIRST + TOKENS, 16, 64, KVSI_LOSS_ANSWER, SAMPLERS[s]);
        double counts[3][TOKENS] = {{0}}, even[TOKENS], uneven[TOKENS];

        for (size_t i = 0; i < TOKENS; i++) {
            even[i] = 1.0 / TOKENS;
            uneven[i] = i > 0 ? 1.0 / (TOKENS - 1) : 0; /* tokens that start at 12 */
        }
        draw_all(task, count_tokens, counts);
        for (size_t place = 0; place < 3; place++) {
            assert_true(fabs(surprise(counts[place], even, TOKENS, DRAWS)) < 4);
            assert_true(surprise(counts[place], uneven, TOKENS, DRAWS) > 8);
        }
        kvs_data_free(task);
    }
}

/* ---- every sequence -------------------------------------------------------------------------- */

static void check_sequence(const kvsi_batch_buffer *buffer, size_t s, size_t vocab,
                           kvsi_loss_rows loss)
{
    const size_t start = buffer->starts[s], last = buffer->starts[s + 1] - start - 1;
    const int32_t *ids = buffer->ids + start, *targets = buffer->targets + start;
    const uint8_t *scored = buffer->scored + start;
    size_t source = last;

    assert_true(last >= 2);
    for (size_t i = 0; i < last; i++) {
        assert_in_range(ids[i], FIRST, vocab - 1);
        for (size_t j = 0; j < i; j++)
            assert_int_not_equal(ids[i], ids[j]);
        assert_int_equal(targets[i], loss == KVSI_LOSS_ALL ? ids[i + 1] : -1);
        assert_int_equal(scored[i], 0);
        if (ids[i] == ids[last])
            source = i;
    }
    assert_true(source + 1 < last);
    assert_int_equal(targets[last], ids[source + 1]);
    assert_int_equal(scored[last], 1);
}

static void every_sequence_keeps_the_rules(void **state)
{
    static const struct {
        size_t vocab, pool, max_length;
    } cases[] = {{13, 2, 4},   {1000, 2, 512}, {1000, 100, 4},   {21, 10, 11},
                 {21, 10, 12}, {21, 10, 99},   {8000, 512, 512}, {INT32_MAX, 5000, 60000}};

    (void)state;
    for (size_t i = 0; i < 4 * sizeof cases / sizeof *cases; i++) {
        const kvsi_loss_rows loss = i % 2 ? KVSI_LOSS_ALL : KVSI_LOSS_ANSWER;
        const size_t vocab = cases[i / 4].vocab, max_length = cases[i / 4].max_length;
        kvs_data *task = make(vocab, cases[i / 4].pool, max_length, loss, SAMPLERS[i / 2 % 2]);
        kvsi_batch_buffer buffer;

        assert_int_equal(kvs_data_vocab(task), vocab);
        assert_true(kvs_data_max_length(task) <= max_length - 1);
        assert_int_equal(kvsi_batch_buffer_init(&buffer, task, 200, NULL), KVS_OK);
        assert_int_equal(kvsi_batch_fill(&buffer, task, 3, KVSI_RANDOM_EVAL, 0, 200, NULL), KVS_OK);
        assert_int_equal(buffer.view.sequences, 200);
        assert_int_equal(buffer.starts[0], 0);
        for (size_t s = 0; s < 200; s++) {
            assert_true(buffer.starts[s + 1] - buffer.starts[s] <= kvs_data_max_length(task));
            check_sequence(&buffer, s, vocab, loss);
        }
        kvsi_batch_buffer_release(&buffer);
        kvs_data_free(task);
    }
}

static void check_same_sequence(const kvs_batch *a, size_t at_a, const kvs_batch *b, size_t at_b)
{
    const size_t from_a = a->starts[at_a], from_b = b->starts[at_b];
    const size_t length = a->starts[at_a + 1] - from_a;

    assert_int_equal(b->starts[at_b + 1] - from_b, length);
    assert_memory_equal(a->ids + from_a, b->ids + from_b, length * sizeof *a->ids);
    assert_memory_equal(a->targets + from_a, b->targets + from_b, length * sizeof *a->targets);
    assert_memory_equal(a->scored + from_a, b->scored + from_b, length);
}

static void batches_do_not_matter(void **state)
{
    (void)state;
    for (size_t s = 0; s < 2; s++) {
        kvs_data *task = make(1000, 128, 512, KVSI_LOSS_ALL, SAMPLERS[s]);
        kvsi_batch_buffer whole, part;
        uint64_t allocations;

        assert_int_equal(kvsi_batch_buffer_init(&whole, task, 40, NULL), KVS_OK);
        assert_int_equal(kvsi_batch_buffer_init(&part, task, 40, NULL), KVS_OK);
        allocations = kvsi_memory_allocations();
        assert_int_equal(kvsi_batch_fill(&whole, task, 5, KVSI_RANDOM_DATA, 1000, 40, NULL),
                         KVS_OK);
        for (size_t first = 0; first < 40; first += 8) { /* backwards, in parts */
            assert_int_equal(
                kvsi_batch_fill(&part, task, 5, KVSI_RANDOM_DATA, 1032 - first, 8, NULL), KVS_OK);
            for (size_t i = 0; i < 8; i++)
                check_same_sequence(&whole.view, 32 - first + i, &part.view, i);
        }
        assert_int_equal(kvsi_batch_fill(&part, task, 5, KVSI_RANDOM_EVAL, 1000, 40, NULL),
                         KVS_OK); /* another stream */
        assert_memory_not_equal(whole.ids, part.ids, 3 * sizeof *whole.ids);
        assert_int_equal(kvsi_batch_fill(&part, task, 6, KVSI_RANDOM_DATA, 1000, 40, NULL),
                         KVS_OK); /* another seed */
        assert_memory_not_equal(whole.ids, part.ids, 3 * sizeof *whole.ids);
        assert_true(kvsi_memory_allocations() == allocations);
        assert_int_equal(kvsi_batch_fill(&part, task, 5, KVSI_RANDOM_DATA, 0, 0, NULL), KVS_OK);
        assert_int_equal(part.view.sequences, 0);
        kvsi_batch_buffer_release(&part);
        kvsi_batch_buffer_release(&whole);
        kvs_data_free(task);
    }
}

/* ---- buckets by length ----------------------------------------------------------------------- */

static void buckets_cover_every_length_once(void **state)
{
    static const struct {
        size_t max_length, buckets, ends[3]; /* inputs: M + 1, and M is max_length - 2 */
    } cases[] = {{512, 3, {17, 41, 511}}, {4, 1, {3}},       {18, 1, {17}},
                 {19, 2, {17, 18}},       {42, 2, {17, 41}}, {43, 3, {17, 41, 42}}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        kvs_data *task =
            make(1000, 900, cases[c].max_length, KVSI_LOSS_ANSWER, KVSI_INDUCTION_DIRECT);
        size_t from = 3;

        assert_int_equal(task->buckets, cases[c].buckets);
        for (size_t b = 0; b < task->buckets; b++) {
            assert_int_equal(task->bucket[b].from, from);
            assert_int_equal(task->bucket[b].to, cases[c].ends[b]);
            from = task->bucket[b].to + 1;
        }
        assert_int_equal(from, kvs_data_max_length(task) + 1);
        kvs_data_free(task);
    }
}

/* ---- settings -------------------------------------------------------------------------------- */

static void bad_settings_are_refused(void **state)
{
    static const struct {
        kvsi_induction_config config;
        kvs_status status;
        const char *says;
    } cases[] = {
        {{.vocab = 100, .pool = 90, .max_length = 64}, KVS_E_INVALID, "pool + 11"},
        {{.vocab = 5, .pool = 2, .max_length = 64}, KVS_E_INVALID, "pool + 11"},
        {{.vocab = 100, .pool = SIZE_MAX, .max_length = 64}, KVS_E_INVALID, "pool + 11"},
        {{.vocab = 100, .pool = 1, .max_length = 64}, KVS_E_INVALID, "pool is 1"},
        {{.vocab = 100, .pool = 50, .max_length = 3}, KVS_E_INVALID, "max length is 3"},
        {{.vocab = (size_t)INT32_MAX + 1, .pool = 2, .max_length = 4}, KVS_E_INVALID, "vocabulary"},
        {{.vocab = 1 << 22, .pool = 1 << 21, .max_length = SIZE_MAX}, KVS_E_LIMIT, "max length"},
        {{.vocab = 100, .pool = 50, .max_length = 64, .loss = (kvsi_loss_rows)7},
         KVS_E_INVALID,
         "loss is 7"},
        {{.vocab = 100, .pool = 50, .max_length = 64, .sampler = (kvsi_induction_sampler)7},
         KVS_E_INVALID,
         "sampler is 7"},
        {{.vocab = 1 << 23, .pool = 1 << 22, .max_length = 4, .sampler = KVSI_INDUCTION_PAPER},
         KVS_E_LIMIT,
         "direct"},
    };
    const size_t live = kvsi_memory_live();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_data *task = (kvs_data *)&live; /* must be set to NULL */
        kvs_err err;

        assert_int_equal(kvsi_induction_create(&task, &cases[i].config, &err), cases[i].status);
        assert_null(task);
        assert_int_equal(err.status, cases[i].status);
        if (!strstr(err.message, cases[i].says))
            fail_msg("'%s' does not contain '%s'", err.message, cases[i].says);
        assert_int_equal(kvsi_induction_create(&task, &cases[i].config, NULL), cases[i].status);
    }
    assert_int_equal(kvsi_memory_live(), live);
}

static void settings_are_described(void **state)
{
    kvsi_induction_config config;
    kvs_data *task;
    json_t *found, *expected;

    (void)state;
    kvsi_induction_config_init(&config);
    assert_int_equal(kvsi_induction_create(&task, &config, NULL), KVS_OK);
    found = task->ops->describe(task);
    expected = json_pack("{s:s, s:i, s:i, s:i, s:s, s:s}", "name", "induction", "vocab", 1000,
                         "pool", 128, "max_length", 512, "loss", "answer", "sampler", "direct");
    assert_true(json_equal(found, expected));
    json_decref(found);
    kvs_data_free(task);

    task = make(1000, 128, 512, KVSI_LOSS_ALL, KVSI_INDUCTION_PAPER);
    found = task->ops->describe(task);
    json_object_set_new(expected, "loss", json_string("all"));
    json_object_set_new(expected, "sampler", json_string("paper"));
    assert_true(json_equal(found, expected));
    json_decref(found);
    json_decref(expected);
    kvs_data_free(task);
    kvs_data_free(NULL);
}

static void impossible_batches_are_refused(void **state)
{
    kvs_data *task = make(1000, 128, 512, KVSI_LOSS_ALL, KVSI_INDUCTION_DIRECT);
    const size_t live = kvsi_memory_live();
    kvsi_batch_buffer buffer;
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_batch_buffer_init(&buffer, task, SIZE_MAX / 8, &err), KVS_E_NOMEM);
    assert_int_equal(kvsi_batch_buffer_init(&buffer, task, SIZE_MAX, &err), KVS_E_NOMEM);
    assert_null(buffer.ids);
    assert_int_equal(kvsi_memory_live(), live);
    kvs_data_free(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_sequences_have_exact_chances),
        cmocka_unit_test(lengths_follow_the_formula),
        cmocka_unit_test(paper_lengths),
        cmocka_unit_test(sources_are_even_given_the_length),
        cmocka_unit_test(tokens_are_even),
        cmocka_unit_test(every_sequence_keeps_the_rules),
        cmocka_unit_test(batches_do_not_matter),
        cmocka_unit_test(buckets_cover_every_length_once),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(settings_are_described),
        cmocka_unit_test(impossible_batches_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
