/* The hop-k task against its definition and known statistics. */
#include "base/memory.h"
#include "data/tasks/tasks.h"
#include "kvshift/kvshift_lab.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { LETTERS = 4, FIRST = 17, LENGTH = 98, NONE = 21, BLANK = 22 };

typedef struct sequence {
    int32_t ids[LENGTH + 1], targets[LENGTH + 1];
    uint8_t scored[LENGTH + 1];
} sequence;

static kvs_data *make_task(size_t only)
{
    kvsi_hopk_config config;
    kvs_data *task;

    kvsi_hopk_config_init(&config);
    config.only = only;
    assert_int_equal(kvsi_hopk_create(&task, &config, NULL), KVS_OK);
    return task;
}

static void draw(sequence *s, const kvs_data *task, uint64_t index)
{
    assert_int_equal(
        kvs_data_sequence(s->ids, s->targets, s->scored, task, 3, KVS_STREAM_TRAIN, index),
        LENGTH + 1);
}

/* By the definition, searching back each time. */
static int32_t hop(const int32_t *letters, size_t place, size_t hops)
{
    for (; hops > 0; hops--) {
        size_t q = place;

        while (q > 0 && letters[q - 1] != letters[place])
            q--;
        if (q == 0)
            return NONE;
        place = q; /* after the equal letter */
    }
    return letters[place];
}

static void answers_are_those_of_the_definition(void **state)
{
    kvs_data *task = make_task(KVSI_HOPS_ALL);
    size_t counts[17] = {0};
    sequence s;

    (void)state;
    assert_int_equal(kvs_data_vocab(task), 23);
    for (uint64_t n = 0; n < 3400; n++) {
        draw(&s, task, n);
        assert_in_range(s.ids[0], 0, 16);
        counts[s.ids[0]]++;
        assert_int_equal(s.targets[0], BLANK);
        assert_false(s.scored[0]);
        for (size_t i = 0; i < LENGTH; i++) {
            assert_in_range(s.ids[1 + i], FIRST, FIRST + LETTERS - 1);
            assert_true(i == 0 || s.ids[1 + i] != s.ids[i]);
            assert_int_equal(s.targets[1 + i], hop(s.ids + 1, i, (size_t)s.ids[0]));
            assert_int_equal(s.scored[1 + i], s.targets[1 + i] != NONE);
        }
    }
    for (size_t k = 0; k <= 16; k++) /* 200 each, and five standard deviations */
        assert_in_range(counts[k], 130, 270);
    kvs_data_free(task);
}

/* 3k + 1 targets are "none" if all letters occur, none for k = 0.  With 16 hops about one string in
 * several thousand has too few of a letter. */
static void missing_answers_are_as_many_as_known(void **state)
{
    static const size_t hops[] = {0, 1, 2, 4, 8, 16};

    (void)state;
    for (size_t h = 0; h < sizeof hops / sizeof *hops; h++) {
        kvs_data *task = make_task(hops[h]);
        size_t exceptions = 0;

        for (uint64_t n = 0; n < 4000; n++) {
            sequence s;
            size_t none = 0;

            draw(&s, task, n);
            for (size_t i = 0; i < LENGTH; i++)
                none += s.targets[1 + i] == NONE;
            exceptions += none != (hops[h] ? 3 * hops[h] + 1 : 0);
        }
        assert_in_range(exceptions, 0, hops[h] == 16 ? 5 : 0);
        kvs_data_free(task);
    }
}

/* How often the target equals the letter: about 4000 * 90 targets each, so the standard error is
 * below .001; the known digits allow .0005 more. */
static void answers_repeat_the_letter_as_often_as_known(void **state)
{
    static const struct {
        size_t hops;
        double share;
    } rows[] = {{1, 0},    {2, .504}, {3, .122}, {4, .348}, {5, .191},
                {6, .290}, {7, .224}, {8, .267}, {16, .25}};

    (void)state;
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        kvs_data *task = make_task(rows[r].hops);
        double same = 0, defined = 0;

        for (uint64_t n = 0; n < 4000; n++) {
            sequence s;

            draw(&s, task, n);
            for (size_t i = 1; i <= LENGTH; i++) {
                defined += s.scored[i];
                same += s.targets[i] == s.ids[i];
            }
        }
        if (!(fabs(same / defined - rows[r].share) < .004))
            fail_msg("%zu hops: %.4f of the answers are the letter itself, expected %.3f",
                     rows[r].hops, same / defined, rows[r].share);
        kvs_data_free(task);
    }
}

static void letters_are_uniform(void **state)
{
    kvs_data *task = make_task(0);
    double first[LETTERS] = {0}, step[LETTERS] = {0};
    sequence s;

    (void)state;
    for (uint64_t n = 0; n < 4000; n++) {
        draw(&s, task, n);
        first[s.ids[1] - FIRST]++;
        for (size_t i = 1; i < LENGTH; i++)
            step[(s.ids[1 + i] - s.ids[i] + LETTERS) % LETTERS]++;
    }
    for (size_t l = 0; l < LETTERS; l++) { /* four standard deviations */
        assert_true(fabs(first[l] - 1000) < 4 * sqrt(4000 * .25 * .75));
        if (l > 0)
            assert_true(fabs(step[l] - 4000.0 * (LENGTH - 1) / 3) <
                        4 * sqrt(4000.0 * (LENGTH - 1) * 2 / 9));
    }
    assert_true(step[0] == 0);
    kvs_data_free(task);
}

/* A fixed set repeats in training and never occurs in evaluation. */
static void training_set_can_be_fixed(void **state)
{
    kvsi_hopk_config config;
    sequence first, again, fresh;
    kvs_data *task;

    (void)state;
    kvsi_hopk_config_init(&config);
    config.sequences = 10;
    assert_int_equal(kvsi_hopk_create(&task, &config, NULL), KVS_OK);
    draw(&first, task, 3);
    draw(&again, task, 13);
    assert_memory_equal(first.ids, again.ids, sizeof first.ids);
    kvs_data_sequence(first.ids, first.targets, first.scored, task, 3, KVS_STREAM_EVAL, 3);
    kvs_data_sequence(fresh.ids, fresh.targets, fresh.scored, task, 3, KVS_STREAM_EVAL, 13);
    assert_true(memcmp(first.ids, fresh.ids, sizeof first.ids) != 0);
    kvs_data_free(task);
}

static void misuse_is_refused(void **state)
{
    static const kvsi_hopk_config bad[] = {{.letters = 1, .length = 9, .hops = 1},
                                           {.letters = 65, .length = 9, .hops = 1},
                                           {.letters = 4, .length = 0, .hops = 1},
                                           {.letters = 4, .length = 9, .hops = 5000},
                                           {.letters = 4, .length = 9, .hops = 1, .only = 2}};
    kvs_data *task;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(kvsi_hopk_create(&task, &bad[i], NULL), KVS_E_INVALID);
}

static void ids_have_words(void **state)
{
    kvs_data *task = make_task(0);
    char word[16];

    (void)state;
    kvs_task_word(word, sizeof word, task, 16);
    assert_string_equal(word, "16");
    kvs_task_word(word, sizeof word, task, FIRST + 2);
    assert_string_equal(word, "c");
    kvs_task_word(word, sizeof word, task, NONE);
    assert_string_equal(word, "none");
    kvs_data_free(task);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_those_of_the_definition),
        cmocka_unit_test(missing_answers_are_as_many_as_known),
        cmocka_unit_test(answers_repeat_the_letter_as_often_as_known),
        cmocka_unit_test(letters_are_uniform),
        cmocka_unit_test(training_set_can_be_fixed),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(ids_have_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
