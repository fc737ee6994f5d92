/* Problems of igsm have the measured statistics of the original generators, and solutions are
 * graded correctly. */
#include "base/memory.h"
#include "data/tasks/igsm.h"
#include "data/tasks/tasks.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- statistics ---- */

typedef struct statistics {
    double parameters, stated, needed, problem_words, solution_words, sentences, steps, abstract;
    double by_count[64], by_sources[5], by_layers[5], by_answer[KVSI_IGSM_MODULUS], by_op[64];
    double by_degree[5]; /* sources, including the random number */
} statistics;

static kvsi_igsm_config paper(size_t items, size_t min_op, size_t max_op)
{
    kvsi_igsm_config c;

    kvsi_igsm_config_init(&c);
    c.items = items;
    c.min_op = min_op;
    c.max_op = max_op;
    return c;
}

static kvsi_igsm_config official(size_t min_op, size_t max_op)
{
    kvsi_igsm_config c;

    kvsi_igsm_config_init(&c);
    c.mode = KVSI_IGSM_OFFICIAL;
    c.min_op = min_op;
    c.max_op = max_op;
    return c;
}

static void draw_one(kvsi_igsm_problem *p, const kvsi_igsm_config *c, uint64_t index)
{
    kvsi_random random;

    kvsi_random_init(&random, 20240101, KVSI_RANDOM_DATA, index);
    if (c->mode == KVSI_IGSM_PAPER)
        kvsi_igsm_draw_paper(p, c, &random);
    else
        kvsi_igsm_draw_official(p, c, 0, &random);
}

static void add(statistics *s, const kvsi_igsm_problem *p, const kvsi_igsm_words *words,
                double share)
{
    /* the line with the answer, and the end: not part of the measured length */
    const size_t official_end = words->mode == KVSI_IGSM_OFFICIAL ? 4 : 0;
    uint8_t needed[KVSI_IGSM_PARAMETERS_MAX];
    kvsi_igsm_text text;

    kvsi_igsm_write(&text, words, p);
    assert_false(text.overflow);
    s->parameters += share * (double)p->count;
    s->needed += share * (double)kvsi_igsm_needed(needed, p);
    s->problem_words += share * (double)(text.problem_count - 1);
    s->solution_words += share * (double)(text.count - text.problem_count - official_end);
    s->sentences += share * (double)p->stated_count;
    s->steps += share * (double)p->solved_count;
    s->abstract += share * p->parameters[p->asked].is_abstract;
    s->by_count[p->count] += share;
    s->by_op[p->operations] += share;
    s->by_layers[p->layers] += share;
    s->by_answer[p->parameters[p->asked].value] += share;
    for (size_t i = 0; i < p->stated_count; i++) {
        const kvsi_igsm_parameter *q = &p->parameters[p->stated[i]];
        const int number = q->source_count == 0 || q->joined != KVSI_IGSM_NOTHING;

        s->by_sources[q->source_count] += 1;
        s->by_degree[q->source_count + (size_t)number] += 1;
        s->stated += 1;
    }
}

static void measure(statistics *s, const kvsi_igsm_config *c, size_t problems)
{
    kvsi_igsm_words words;
    kvsi_igsm_problem p;

    *s = (statistics){0};
    kvsi_igsm_words_init(&words, c);
    for (size_t i = 0; i < problems; i++) {
        draw_one(&p, c, i);
        add(s, &p, &words, 1 / (double)problems);
    }
    for (size_t i = 0; i < 5; i++) {
        s->by_sources[i] /= s->stated;
        s->by_degree[i] /= s->stated;
    }
}

/* Measured values have two to three digits, and ours are a sample of 20,000 problems: 2 % covers
 * both unless another tolerance is given. */
static void expect(double found, double expected, double share, const char *what)
{
    if (!(fabs(found - expected) <= share * expected))
        fail_msg("%s is %.4g, expected %.4g within %g %%", what, found, expected, 100 * share);
}

static void expect_near(double found, double expected, double limit, const char *what)
{
    if (!(fabs(found - expected) <= limit))
        fail_msg("%s is %.4g, expected %.4g within %g", what, found, expected, limit);
}

enum { PROBLEMS = 20000 };

/* ---- mode paper ---- */

static void paper_counts_are_those_of_its_generator(void **state)
{
    static const double counts[] = {.013, .050, .126, .199, .236, .197, .119, .049, .011};
    static const double sources[] = {.385, .259, .195, .160};
    const kvsi_igsm_config c = paper(3, 1, 12);
    double most = 0;
    statistics s;

    (void)state;
    measure(&s, &c, PROBLEMS);
    expect(s.parameters, 8, .02, "parameters");
    for (size_t n = 4; n <= 12; n++) /* four standard errors of both samples: 0.011 */
        expect_near(s.by_count[n], counts[n - 4], .011, "share of problems of a size");
    for (size_t d = 0; d < 4; d++)
        expect_near(s.by_sources[d], sources[d], .005, "share of parameters by sources");
    for (size_t v = 0; v < KVSI_IGSM_MODULUS; v++)
        most = fmax(most, s.by_answer[v]);
    assert_true(most <= .06);                        /* near uniform, which is .043 */
    expect(s.needed, 2.7, .05, "parameters needed"); /* 2.7 has two digits */
}

static void paper_lengths_are_those_of_its_generator(void **state)
{
    static const struct {
        size_t items, min_op, max_op;
        double problem, solution, needed;
    } rows[] = {{3, 1, 12, 155, 138, 2.7},
                {5, 1, 12, 196, 173, 2.8},
                {5, 15, 15, 300, 264, 3.5},
                {8, 1, 21, 325, 285, 0},
                {8, 24, 24, 488, 425, 4.2}};

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const kvsi_igsm_config c = paper(rows[i].items, rows[i].min_op, rows[i].max_op);
        statistics s;

        measure(&s, &c, PROBLEMS / 2);
        expect(s.problem_words, rows[i].problem, .02, "words of a problem");
        expect(s.solution_words, rows[i].solution, .02, "words of a solution");
        if (rows[i].needed > 0)
            expect(s.needed, rows[i].needed, .05, "parameters needed");
    }
}

/* The items of four categories: the sum is at most 12 for 0.57 of all, and 15 for 0.084. */
static void paper_sizes_are_drawn_as_stated(void **state)
{
    const kvsi_igsm_config c = paper(5, 1, 20);
    double up_to_12 = 0;
    statistics s;

    (void)state;
    measure(&s, &c, PROBLEMS);
    for (size_t n = 0; n <= 12; n++)
        up_to_12 += s.by_count[n];
    expect_near(up_to_12, .57, .014, "share up to 12"); /* four standard errors */
    expect_near(s.by_count[15], .084, .008, "share at 15");
}

static void compact_words_are_half_as_many(void **state)
{
    kvsi_igsm_config c = paper(3, 1, 12);
    kvsi_igsm_words words;
    statistics s;

    (void)state;
    c.wording = KVSI_IGSM_COMPACT;
    kvsi_igsm_words_init(&words, &c);
    assert_in_range(words.count, 100, 130);
    measure(&s, &c, PROBLEMS / 4);
    assert_true(s.problem_words + s.solution_words < .6 * (155 + 138));
}

/* ---- mode official ---- */

static void official_problems_are_those_of_its_generator(void **state)
{
    static const double degrees[] = {.57, .26, .11, .06}, layers[] = {.36, .33, .30};
    const kvsi_igsm_config c = official(1, 15);
    statistics s;

    (void)state;
    measure(&s, &c, PROBLEMS);
    expect(s.sentences, 9.0, .02, "sentences");
    expect(s.steps, 4.8, .02, "steps");
    expect(s.problem_words, 179, .02, "words of a problem");
    expect(s.solution_words, 96, .02, "words of a solution");
    expect_near(s.abstract, .41, .02, "share of abstract questions");
    for (size_t k = 1; k <= 15; k++) /* four standard errors */
        expect_near(s.by_op[k], (2 * (15 - (double)k) + 1) / 225, .0095, "share of operations");
    for (size_t d = 1; d <= 4; d++)
        expect_near(s.by_degree[d], degrees[d - 1], .012, "share of sentences by sources");
    for (size_t l = 2; l <= 4; l++) /* measured on some thousands: off by up to .027 */
        expect_near(s.by_layers[l], layers[l - 2], .03, "share of problems by layers");
    expect_near(s.by_answer[0], .13, .015, "share of answers that are 0");
}

static void official_sizes_follow_the_operations(void **state)
{
    const kvsi_igsm_config hard = official(15, 15), easy = official(1, 12);
    statistics s;

    (void)state;
    measure(&s, &hard, PROBLEMS / 4);
    expect(s.sentences, 10.8, .02, "sentences at 15");
    expect(s.steps, 11.3, .02, "steps at 15");
    expect(s.problem_words, 227, .02, "words of a problem at 15");
    expect(s.solution_words, 256, .02, "words of a solution at 15");
    assert_true(s.by_op[15] > .999999);
    measure(&s, &easy, PROBLEMS);
    expect(s.sentences, 9.0, .02, "sentences up to 12");
    expect(s.steps, 4.0, .02, "steps up to 12");
    expect(s.problem_words, 181, .035, "words of a problem up to 12"); /* 175.5 */
    expect(s.solution_words, 77, .02, "words of a solution up to 12");
}

/* Solutions of tests have other parameters or rules than those in training. */
static void splits_share_no_solution(void **state)
{
    const kvsi_igsm_config c = official(1, 3);
    kvsi_igsm_problem trained, tested;

    (void)state;
    for (uint64_t i = 0; i < 200; i++) {
        kvsi_random random;

        kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, i);
        kvsi_igsm_draw_official(&trained, &c, 0, &random);
        kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, i);
        kvsi_igsm_draw_official(&tested, &c, 1, &random);
        assert_true(memcmp(&trained, &tested, sizeof trained) != 0);
    }
}

/* ---- every problem ---- */

static void check_sources_come_first(const kvsi_igsm_problem *p)
{
    uint8_t done[KVSI_IGSM_PARAMETERS_MAX] = {0};
    int asked = 0;

    for (size_t i = 0; i < p->solved_count; i++) {
        const kvsi_igsm_parameter *q = &p->parameters[p->solved[i]];

        for (size_t s = 0; s < q->source_count; s++)
            assert_true(done[q->sources[s]]);
        assert_false(done[p->solved[i]]);
        done[p->solved[i]] = 1;
        assert_in_range(q->value, 0, KVSI_IGSM_MODULUS - 1);
        assert_int_equal(q->value, kvsi_igsm_evaluate(p, q));
        asked |= p->solved[i] == p->asked;
    }
    assert_true(asked);
}

static void problems_can_be_solved_step_by_step(void **state)
{
    const kvsi_igsm_config configs[] = {paper(3, 1, 12), paper(10, 26, 26), official(1, 15),
                                        official(21, 21)};
    kvsi_igsm_problem p;

    (void)state;
    for (size_t c = 0; c < sizeof configs / sizeof *configs; c++)
        for (uint64_t i = 0; i < 300; i++) {
            draw_one(&p, &configs[c], i);
            check_sources_come_first(&p);
            assert_in_range(p.operations, configs[c].min_op, configs[c].max_op);
            if (configs[c].mode == KVSI_IGSM_PAPER)
                assert_int_equal(p.solved_count, p.count);
            else /* only what the question needs */
                assert_int_equal(p.solved[p.solved_count - 1], p.asked);
        }
}

/* Values by hand: 20 + 5 = 2, 3 - 20 - 2 = 4, 20 * 2 = 17, 20 * 2 + 4 * 17 = 16 (mod 23). */
static void values_are_right(void **state)
{
    kvsi_igsm_problem p = {.count = 5};
    kvsi_igsm_parameter *q = p.parameters;

    (void)state;
    q[0] = (kvsi_igsm_parameter){.constant = 20, .value = 20};
    q[1] = (kvsi_igsm_parameter){.sources = {0},
                                 .source_count = 1,
                                 .operation = KVSI_IGSM_SUM,
                                 .joined = KVSI_IGSM_SUM,
                                 .constant = 5};
    q[2] = (kvsi_igsm_parameter){.constant = 3, .value = 3};
    q[3] = (kvsi_igsm_parameter){
        .sources = {2, 0, 1}, .source_count = 3, .operation = KVSI_IGSM_DIFFERENCE};
    assert_int_equal(q[1].value = kvsi_igsm_evaluate(&p, &q[1]), 2);
    assert_int_equal(q[3].value = kvsi_igsm_evaluate(&p, &q[3]), 4);
    q[4] =
        (kvsi_igsm_parameter){.sources = {0, 1}, .source_count = 2, .operation = KVSI_IGSM_PRODUCT};
    assert_int_equal(q[4].value = kvsi_igsm_evaluate(&p, &q[4]), 17);
    q[4].operation = KVSI_IGSM_SUM;
    q[4].joined = KVSI_IGSM_PRODUCT;
    q[4].constant = 2;
    assert_int_equal(kvsi_igsm_evaluate(&p, &q[4]), 21); /* 2 * (20 + 2) */
    q[4] = (kvsi_igsm_parameter){
        .sources = {0, 1, 3, 2}, .source_count = 4, .operation = KVSI_IGSM_PAIRS};
    assert_int_equal(kvsi_igsm_evaluate(&p, &q[4]), 6); /* 20 * 2 + 4 * 3 */
}

static void words_are_all_different(void **state)
{
    const kvsi_igsm_config configs[] = {paper(3, 1, 12), official(1, 15)};

    (void)state;
    for (size_t c = 0; c < 2; c++) {
        kvsi_igsm_words words;

        kvsi_igsm_words_init(&words, &configs[c]);
        for (size_t w = 0; w < words.count; w++) {
            char text[32];

            kvsi_igsm_word_text(&words, w, text, sizeof text);
            if (kvsi_igsm_word_find(&words, text + (text[0] == ' ')) != (int)w)
                fail_msg("'%s' occurs twice", text);
        }
    }
}

/* ---- grading ---- */

static void make_problem(kvsi_igsm_problem *p, kvsi_igsm_text *text, kvsi_igsm_words *words,
                         const kvsi_igsm_config *c, uint64_t index)
{
    kvsi_igsm_words_init(words, c);
    draw_one(p, c, index);
    kvsi_igsm_write(text, words, p);
}

static kvs_igsm_grade grade(const kvsi_igsm_words *words, const kvsi_igsm_problem *p,
                            const kvsi_igsm_text *text)
{
    const uint16_t *written = text->words + text->problem_count;
    const size_t count = text->count - text->problem_count;
    const int ended = count > 0 && written[count - 1] == KVSI_IGSM_END;
    kvs_igsm_grade g;

    kvsi_igsm_grade(&g, words, p, written, count - (size_t)ended, ended);
    return g;
}

static const kvsi_igsm_config *graded_configs(size_t index)
{
    static kvsi_igsm_config configs[3];

    configs[0] = paper(3, 6, 12);
    configs[1] = paper(3, 6, 12);
    configs[1].wording = KVSI_IGSM_COMPACT;
    configs[2] = official(6, 12);
    return index < 3 ? &configs[index] : NULL;
}

static void reference_solutions_are_right(void **state)
{
    (void)state;
    for (size_t c = 0; graded_configs(c); c++)
        for (uint64_t i = 0; i < 200; i++) {
            kvsi_igsm_problem p;
            kvsi_igsm_words words;
            kvsi_igsm_text text;
            kvs_igsm_grade g;

            make_problem(&p, &text, &words, graded_configs(c), i);
            g = grade(&words, &p, &text);
            assert_true(g.solved && g.first_right && !g.asked_missing && g.strict);
            assert_int_equal(kvsi_igsm_read_number(&words, text.words[text.answer]),
                             p.parameters[p.asked].value);
        }
}

/* Any other word in a solution makes it wrong by the strict grade; for the paper's grade only the
 * number at the end of the asked step counts. */
static void wrong_words_are_found(void **state)
{
    (void)state;
    for (size_t c = 0; graded_configs(c); c++) {
        kvsi_igsm_problem p;
        kvsi_igsm_words words;
        kvsi_igsm_text text;

        make_problem(&p, &text, &words, graded_configs(c), 3);
        for (size_t at = text.problem_count; at + 1 < text.count; at++) {
            kvsi_igsm_text changed = text;
            const int number = kvsi_igsm_read_number(&words, text.words[at]);

            changed.words[at] =
                number >= 0 ? (uint16_t)(text.words[at] + (number == 22 ? -1 : 1)) : KVSI_IGSM_END;
            if (grade(&words, &p, &changed).strict)
                fail_msg("word %zu was changed and the solution is still accepted", at);
            if (at == text.answer && words.mode == KVSI_IGSM_PAPER)
                assert_false(grade(&words, &p, &changed).solved);
        }
    }
}

/* Moves the first line of a solution to the end. */
static void swap_lines(kvsi_igsm_text *text)
{
    uint16_t moved[KVSI_IGSM_WORDS_MAX];
    uint16_t *start = text->words + text->problem_count;
    const size_t count = text->count - text->problem_count - 1; /* without the end */
    size_t line = 0;

    while (start[line] != KVSI_IGSM_LINE)
        line++;
    memcpy(moved, start, line * sizeof *moved);
    memmove(start, start + line + 1, (count - line - 1) * sizeof *start);
    start[count - line - 1] = KVSI_IGSM_LINE;
    memcpy(start + count - line, moved, line * sizeof *moved);
}

static void order_and_omissions_count(void **state)
{
    const kvsi_igsm_config c = paper(3, 12, 12);
    kvsi_igsm_problem p;
    kvsi_igsm_words words;
    kvsi_igsm_text text, changed;
    kvs_igsm_grade g;

    (void)state;
    make_problem(&p, &text, &words, &c, 5);
    changed = text;
    swap_lines(&changed); /* letters are out of order, and sources may be missing */
    g = grade(&words, &p, &changed);
    assert_true(g.solved && !g.strict);
    changed = text;
    changed.count--; /* no end */
    g = grade(&words, &p, &changed);
    assert_true(g.solved && !g.strict);
    changed = text;
    changed.count = text.problem_count;
    g = grade(&words, &p, &changed);
    assert_true(!g.solved && g.asked_missing && !g.strict);
}

/* ---- the task ---- */

static void sequences_hold_problem_and_solution(void **state)
{
    kvsi_igsm_config c = paper(3, 1, 12);
    int32_t ids[1024], targets[1024], prompt[1024];
    uint8_t scored[1024];
    size_t count, problem, scores = 0;
    kvs_igsm_grade g;
    kvs_data *task;

    (void)state;
    c.solution_only = 1;
    assert_int_equal(kvsi_igsm_create(&task, &c, NULL), KVS_OK);
    assert_int_equal(kvs_data_max_length(task), 1023);
    count = kvs_data_sequence(ids, targets, scored, task, 9, KVS_STREAM_EVAL, 4);
    problem = kvs_igsm_problem(prompt, task, 9, 4);
    assert_memory_equal(ids, prompt, problem * sizeof *ids);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(targets[i], i + 1 < problem ? -1
                                     : i + 1 < count ? ids[i + 1]
                                                     : KVSI_IGSM_END);
        scores += scored[i];
    }
    assert_int_equal(scores, 1);
    assert_int_equal(
        kvs_igsm_grade_answer(&g, task, 9, 4, targets + problem - 1, count - problem + 1, NULL),
        KVS_OK);
    assert_true(g.strict && g.solved);
    assert_int_equal(
        kvs_igsm_grade_answer(&g, task, 9, 5, targets + problem - 1, count - problem + 1, NULL),
        KVS_OK);
    assert_false(g.strict); /* the solution of another problem */
    kvs_data_free(task);
}

static void long_problems_are_drawn_again(void **state)
{
    kvsi_igsm_config c = paper(3, 1, 12);
    int32_t ids[256], targets[256];
    uint8_t scored[256];
    kvs_data *task;
    kvs_err err;

    (void)state;
    c.max_length = 200;
    assert_int_equal(kvsi_igsm_create(&task, &c, NULL), KVS_OK);
    for (uint64_t i = 0; i < 200; i++)
        assert_true(kvs_data_sequence(ids, targets, scored, task, 1, KVS_STREAM_TRAIN, i) < 200);
    kvs_data_free(task);
    c.min_op = 12;
    assert_int_equal(kvsi_igsm_create(&task, &c, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "max length"));
}

static void misuse_is_refused(void **state)
{
    const struct {
        kvsi_igsm_config config;
        const char *said;
    } rows[] = {{paper(3, 13, 14), "min op"}, {paper(11, 1, 12), "items"},
                {paper(3, 1, 27), "max op"},  {paper(3, 5, 4), "min op"},
                {official(1, 49), "max op"},  {official(0, 3), "min op"}};
    kvsi_igsm_config compact = official(1, 3);
    kvs_data *task;
    kvs_err err;

    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        assert_int_equal(kvsi_igsm_create(&task, &rows[i].config, &err), KVS_E_INVALID);
        if (!strstr(err.message, rows[i].said))
            fail_msg("'%s' does not contain %s", err.message, rows[i].said);
    }
    compact.wording = KVSI_IGSM_COMPACT;
    assert_int_equal(kvsi_igsm_create(&task, &compact, &err), KVS_E_INVALID);
}

/* With GPT-2's tokenizer, words encoded one by one have the ids of the whole text. */
static void tokens_of_a_text_are_its_words(void **state)
{
    const char *shared = getenv("KVSHIFT_SHARED");
    kvsi_igsm_config configs[] = {paper(3, 1, 12), official(1, 15)};
    kvs_tokenizer *tokenizer;
    char path[1024];

    (void)state;
    snprintf(path, sizeof path, "%s/data/tokenizer-gpt2/tokenizer.json", shared ? shared : "");
    if (!shared || access(path, R_OK) != 0) {
        print_message("skipped: no tokenizer '%s'\n", path);
        skip();
    }
    assert_int_equal(kvs_tokenizer_load(&tokenizer, path, NULL), KVS_OK);
    for (size_t c = 0; c < 2; c++) {
        int32_t ids[2048], targets[2048], *again;
        uint8_t scored[2048];
        size_t count, size, encoded;
        kvs_igsm_grade g;
        kvs_data *task;
        char *text;

        configs[c].tokenizer = tokenizer;
        configs[c].max_length = 2048;
        assert_int_equal(kvsi_igsm_create(&task, &configs[c], NULL), KVS_OK);
        assert_int_equal(kvs_data_vocab(task), 50257);
        count = kvs_data_sequence(ids, targets, scored, task, 1, KVS_STREAM_EVAL, 0);
        assert_int_equal(targets[count - 1], 50256);
        assert_int_equal(kvs_tokenizer_decode(&text, &size, tokenizer, ids, count, NULL), KVS_OK);
        assert_int_equal(kvs_tokenizer_encode(&again, &encoded, tokenizer, text, size, 0, NULL),
                         KVS_OK);
        assert_int_equal(encoded, count);
        assert_memory_equal(again, ids, count * sizeof *ids);
        encoded = kvs_igsm_problem(again, task, 1, 0);
        assert_int_equal(
            kvs_igsm_grade_answer(&g, task, 1, 0, targets + encoded - 1, count - encoded + 1, NULL),
            KVS_OK);
        assert_true(g.strict && g.solved);
        kvs_ids_free(again);
        kvs_text_free(text);
        kvs_data_free(task);
    }
    kvs_tokenizer_free(tokenizer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paper_counts_are_those_of_its_generator),
        cmocka_unit_test(paper_lengths_are_those_of_its_generator),
        cmocka_unit_test(paper_sizes_are_drawn_as_stated),
        cmocka_unit_test(compact_words_are_half_as_many),
        cmocka_unit_test(official_problems_are_those_of_its_generator),
        cmocka_unit_test(official_sizes_follow_the_operations),
        cmocka_unit_test(splits_share_no_solution),
        cmocka_unit_test(problems_can_be_solved_step_by_step),
        cmocka_unit_test(values_are_right),
        cmocka_unit_test(words_are_all_different),
        cmocka_unit_test(reference_solutions_are_right),
        cmocka_unit_test(wrong_words_are_found),
        cmocka_unit_test(order_and_omissions_count),
        cmocka_unit_test(sequences_hold_problem_and_solution),
        cmocka_unit_test(long_problems_are_drawn_again),
        cmocka_unit_test(misuse_is_refused),
        cmocka_unit_test(tokens_of_a_text_are_its_words),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
