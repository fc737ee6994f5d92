/* The n-gram task: its table and best accuracy without x1 against direct counts; models memorize
 * it, or cannot because they see only x2. */
#include "base/memory.h"
#include "data/data.h"
#include "data/tasks/tasks.h"
#include "support.h"
#include "train/trainer.h"

#include <math.h>
#include <string.h>

static kvs_data *make(size_t alphabet, size_t pairs, size_t answers, uint64_t seed)
{
    const kvsi_ngram_config config = {
        .alphabet = alphabet, .pairs = pairs, .answers = answers, .seed = seed};
    kvs_data *task;
    kvs_err err;

    if (kvsi_ngram_create(&task, &config, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return task;
}

/* `count` sequences from `first` on; release the buffer. */
static kvsi_batch_buffer draw(const kvs_data *task, uint64_t seed, kvsi_purpose purpose,
                              uint64_t first, size_t count)
{
    kvsi_batch_buffer buffer;

    assert_int_equal(kvsi_batch_buffer_init(&buffer, task, count, NULL), KVS_OK);
    assert_int_equal(kvsi_batch_fill(&buffer, task, seed, purpose, first, count, NULL), KVS_OK);
    return buffer;
}

/* ---- the table ------------------------------------------------------------------------------- */

static void pairs_are_different_and_in_range(void **state)
{
    static const struct {
        size_t alphabet, pairs, answers;
    } cases[] = {{30, 200, 1000}, {1, 1, 1}, {20, 400, 7}, {8000, 50, 1}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        const size_t alphabet = cases[c].alphabet, pairs = cases[c].pairs;
        kvs_data *task = make(alphabet, pairs, cases[c].answers, 5);
        kvsi_batch_buffer all = draw(task, 1, KVSI_RANDOM_DATA, 0, pairs);

        assert_int_equal(kvs_data_vocab(task), alphabet + cases[c].answers);
        assert_int_equal(kvs_data_max_length(task), 2);
        assert_int_equal(all.starts[pairs], 2 * pairs);
        for (size_t i = 0; i < pairs; i++) {
            const int32_t *x = all.ids + 2 * i;

            assert_int_equal(all.starts[i], 2 * i);
            assert_in_range(x[0], 0, alphabet - 1);
            assert_in_range(x[1], 0, alphabet - 1);
            assert_int_equal(all.targets[2 * i], -1);
            assert_in_range(all.targets[2 * i + 1], alphabet, kvs_data_vocab(task) - 1);
            assert_true(all.scored[2 * i] == 0 && all.scored[2 * i + 1] == 1);
            for (size_t j = 0; j < i; j++)
                assert_memory_not_equal(x, all.ids + 2 * j, 2 * sizeof *x);
        }
        kvsi_batch_buffer_release(&all);
        kvs_data_free(task);
    }
}

/* 5000 of 10000 pairs: a letter is in 50 +- 5 of its 100. */
static void letters_and_answers_are_even(void **state)
{
    enum { LETTERS = 100, PAIRS = 5000, ANSWERS = 10 };
    kvs_data *task = make(LETTERS, PAIRS, ANSWERS, 1);
    kvsi_batch_buffer all = draw(task, 1, KVSI_RANDOM_DATA, 0, PAIRS);
    int letters[2][LETTERS] = {{0}}, answers[ANSWERS] = {0};

    (void)state;
    for (size_t i = 0; i < PAIRS; i++) {
        letters[0][all.ids[2 * i]]++;
        letters[1][all.ids[2 * i + 1]]++;
        answers[all.targets[2 * i + 1] - LETTERS]++;
    }
    for (size_t i = 0; i < LETTERS; i++) {
        assert_in_range(letters[0][i], 25, 75);
        assert_in_range(letters[1][i], 25, 75);
    }
    for (size_t i = 0; i < ANSWERS; i++)
        assert_in_range(answers[i], 400, 600);
    kvsi_batch_buffer_release(&all);
    kvs_data_free(task);
}

static void assert_same_sequences(const kvsi_batch_buffer *a, const kvsi_batch_buffer *b)
{
    assert_memory_equal(a->ids, b->ids, a->max_tokens * sizeof *a->ids);
    assert_memory_equal(a->targets, b->targets, a->max_tokens * sizeof *a->targets);
}

static void every_stream_walks_the_same_table(void **state)
{
    enum { PAIRS = 20 };
    kvs_data *task = make(10, PAIRS, 50, 3), *again = make(10, PAIRS, 50, 3);
    kvs_data *other = make(10, PAIRS, 50, 4);
    kvsi_batch_buffer all = draw(task, 1, KVSI_RANDOM_DATA, 0, PAIRS);
    kvsi_batch_buffer rounds = draw(task, 9, KVSI_RANDOM_EVAL, 7 * PAIRS, PAIRS);
    kvsi_batch_buffer remade = draw(again, 1, KVSI_RANDOM_DATA, 0, PAIRS);
    kvsi_batch_buffer differs = draw(other, 1, KVSI_RANDOM_DATA, 0, PAIRS);
    kvsi_batch_buffer middle = draw(task, 1, KVSI_RANDOM_DATA, 3 * PAIRS + 13, 1);

    (void)state;
    assert_same_sequences(&all, &rounds);
    assert_same_sequences(&all, &remade);
    assert_memory_equal(middle.ids, all.ids + 2 * 13, 2 * sizeof *all.ids);
    assert_memory_not_equal(all.ids, differs.ids, 2 * PAIRS * sizeof *all.ids);
    kvsi_batch_buffer_release(&all);
    kvsi_batch_buffer_release(&rounds);
    kvsi_batch_buffer_release(&remade);
    kvsi_batch_buffer_release(&differs);
    kvsi_batch_buffer_release(&middle);
    kvs_data_free(task);
    kvs_data_free(again);
    kvs_data_free(other);
}

/* ---- the best accuracy without x1 ------------------------------------------------------------ */

/* Tries every target for every x2. */
static double best_guess(const kvs_data *task, size_t alphabet, size_t pairs)
{
    kvsi_batch_buffer all = draw(task, 1, KVSI_RANDOM_DATA, 0, pairs);
    size_t right = 0;

    for (int32_t x2 = 0; x2 < (int32_t)alphabet; x2++) {
        size_t best = 0;

        for (int32_t guess = 0; guess < (int32_t)task->vocab; guess++) {
            size_t hits = 0;

            for (size_t i = 0; i < pairs; i++)
                hits += all.ids[2 * i + 1] == x2 && all.targets[2 * i + 1] == guess;
            best = hits > best ? hits : best;
        }
        right += best;
    }
    kvsi_batch_buffer_release(&all);
    return (double)right / (double)pairs;
}

static void ceiling_is_the_best_guess_from_x2(void **state)
{
    static const struct {
        size_t alphabet, pairs, answers;
    } cases[] = {{5, 25, 2}, {10, 100, 4}, {20, 150, 1000}, {30, 60, 3}, {4, 16, 1}, {1, 1, 9}};

    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        kvs_data *task = make(cases[c].alphabet, cases[c].pairs, cases[c].answers, 11 + c);
        const double expected = best_guess(task, cases[c].alphabet, cases[c].pairs);

        if (kvs_ngram_ceiling(task) != expected)
            fail_msg("case %zu: %g, expected %g", c, kvs_ngram_ceiling(task), expected);
        kvs_data_free(task);
    }
}

static void ceilings_are_those_known_for_200_pairs(void **state)
{
    static const struct {
        size_t alphabet;
        double ceiling;
    } known[] = {{20, 0.10}, {30, 0.15}, {50, 0.25}, {100, 0.43}, {200, 0.63}, {1000, 0.91}};

    (void)state;
    for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
        double mean = 0;

        for (uint64_t seed = 1; seed <= 20; seed++) {
            kvs_data *task = make(known[k].alphabet, 200, 1000, seed);

            mean += kvs_ngram_ceiling(task) / 20;
            kvs_data_free(task);
        }
        if (fabs(mean - known[k].ceiling) > 0.02)
            fail_msg("alphabet %zu: %g, expected %g", known[k].alphabet, mean, known[k].ceiling);
    }
}

/* ---- models ---------------------------------------------------------------------------------- */

enum { ALPHABET = 30, PAIRS = 200, ANSWERS = 100 };

static double memorise(const kvs_data *task, unsigned shift, size_t sliding_window)
{
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model_config config;
    kvs_model *model;
    kvsi_train_job job = {.data = task};
    kvs_train_result result = {.size = sizeof(kvs_train_result)};
    kvs_err err;

    kvsi_model_config_init(&config);
    config.vocab = kvs_data_vocab(task);
    config.dim = 32;
    config.context = 2;
    config.shift.targets = shift;
    config.sliding_window = sliding_window;
    assert_int_equal(kvs_model_create(&model, rt, &config, 7, &err), KVS_OK);
    kvsi_train_config_init(&job.config);
    job.model = model;
    job.config.eval_sequences = PAIRS;
    job.config.steps = 250;
    job.config.batch = PAIRS;
    job.config.lr = 1e-2;
    if (kvsi_train(&job, &result, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(result.final.buckets, 0);
    assert_int_equal(result.tokens, job.config.steps * PAIRS * 2);
    kvs_model_free(model);
    kvs_runtime_free(rt);
    return result.final.accuracy;
}

static void one_layer_memorises_with_and_without_the_shift(void **state)
{
    kvs_data *task = make(ALPHABET, PAIRS, ANSWERS, 1);
    const double shifted = memorise(task, KVS_SHIFT_K | KVS_SHIFT_V, 0);
    const double plain = memorise(task, 0, 0);

    (void)state;
    if (shifted != 1 || plain != 1)
        fail_msg("accuracy %.3f with the shift, %.3f without", shifted, plain);
    kvs_data_free(task);
}

/* With a window of one token only x2 is visible: the best accuracy is the ceiling. */
static void without_x1_the_ceiling_holds(void **state)
{
    kvs_data *task = make(ALPHABET, PAIRS, ANSWERS, 1);
    const double blind = memorise(task, 0, 1), ceiling = kvs_ngram_ceiling(task);

    (void)state;
    if (blind > ceiling || blind < 0.8 * ceiling)
        fail_msg("accuracy %.3f, ceiling %.3f", blind, ceiling);
    kvs_data_free(task);
}

/* ---- settings -------------------------------------------------------------------------------- */

static void bad_settings_are_refused(void **state)
{
    static const struct {
        kvsi_ngram_config config;
        const char *says;
    } cases[] = {
        {{.alphabet = 0, .pairs = 1, .answers = 1}, "alphabet is 0, expected 1 to 8192"},
        {{.alphabet = 3, .pairs = 0, .answers = 1}, "pairs is 0"},
        {{.alphabet = 3, .pairs = 1, .answers = 0}, "answers is 0"},
        {{.alphabet = 3, .pairs = 10, .answers = 1}, "pairs is '10', expected at most 9"},
        {{.alphabet = SIZE_MAX, .pairs = 1, .answers = 1}, "alphabet is"},
        {{.alphabet = 8000, .pairs = SIZE_MAX, .answers = 1}, "pairs is"},
        {{.alphabet = 3, .pairs = 1, .answers = SIZE_MAX}, "answers is"},
        {{.alphabet = 3, .pairs = 1, .answers = 1, .seed = UINT64_MAX}, "seed is"},
    };
    const size_t live = kvsi_memory_live();

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvs_data *task = (kvs_data *)&live; /* must be set to NULL */
        kvs_err err;

        assert_int_equal(kvsi_ngram_create(&task, &cases[i].config, &err), KVS_E_INVALID);
        assert_null(task);
        if (!strstr(err.message, cases[i].says))
            fail_msg("'%s' does not contain '%s'", err.message, cases[i].says);
    }
    assert_int_equal(kvsi_memory_live(), live);
}

static void settings_are_described(void **state)
{
    const size_t live = kvsi_memory_live();
    kvsi_ngram_config config;
    kvs_data *task;
    json_t *found, *expected;

    (void)state;
    kvsi_ngram_config_init(&config);
    assert_int_equal(kvsi_ngram_create(&task, &config, NULL), KVS_OK);
    found = task->ops->describe(task);
    expected =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:f}", "name", "ngram", "alphabet", 30, "pairs", 200,
                  "answers", 1000, "seed", 1, "x2_only_ceiling", kvs_ngram_ceiling(task));
    assert_true(json_equal(found, expected));
    json_decref(found);
    json_decref(expected);
    kvs_data_free(task);
    assert_int_equal(kvsi_memory_live(), live);
}

static void other_tasks_have_no_ceiling(void **state)
{
    kvsi_induction_config config;
    kvs_data *task;

    (void)state;
    kvsi_induction_config_init(&config);
    assert_int_equal(kvsi_induction_create(&task, &config, NULL), KVS_OK);
    assert_true(isnan(kvs_ngram_ceiling(task)));
    kvs_data_free(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pairs_are_different_and_in_range),
        cmocka_unit_test(letters_and_answers_are_even),
        cmocka_unit_test(every_stream_walks_the_same_table),
        cmocka_unit_test(ceiling_is_the_best_guess_from_x2),
        cmocka_unit_test(ceilings_are_those_known_for_200_pairs),
        cmocka_unit_test(one_layer_memorises_with_and_without_the_shift),
        cmocka_unit_test(without_x1_the_ceiling_holds),
        cmocka_unit_test(bad_settings_are_refused),
        cmocka_unit_test(settings_are_described),
        cmocka_unit_test(other_tasks_have_no_ceiling),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
