/* Sessions of models whose weights stay in their file, in every type, and sessions with an F16
 * cache: after any operations the logits equal those of one pass. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "family.h"
#include "formats/hf.h"
#include "kvshift/kvshift_lab.h"
#include "model_files.h"
#include "walk.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VOCAB = 19, DIM = 64, CONTEXT = 140 };

/* Float rounding, relative to the largest logit.  If values are rounded on purpose, that
 * error sometimes changes the result of the rounding: inputs of integer weights by 1/65534 of the
 * largest of 32, values in an F16 cache by 1/2048 of themselves.  Few of thousands change, and each
 * is one term of many in a sum. */
static const double LIMIT = 1e-5, BLOCKS_LIMIT = 1e-4, HALVES_LIMIT = 1e-4;

static char *dir, *session_path;

static int set_up(void **state)
{
    (void)state;
    dir = support_make_dir();
    assert_non_null(session_path = kvsi_path_join(dir, "a.session"));
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    kvsi_free(session_path);
    support_remove_dir(dir);
    return 0;
}

/* ---- weights of every type ---- */

static const struct {
    uint32_t gguf;
    const char *name;
    double limit;
} types[] = {{0, "F32", LIMIT},
             {1, "F16", LIMIT},
             {30, "BF16", LIMIT},
             {8, "Q8_0", BLOCKS_LIMIT},
             {2, "Q4_0", BLOCKS_LIMIT}};

enum { TYPES = sizeof types / sizeof *types };

static const kvs_model_config specials[] = {
    {.kv_heads = 2},
    {.tied = 1},
    {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1), .kv_heads = 2},
    {SUPPORT_SHIFT(KVS_SHIFT_Q | KVS_SHIFT_K | KVS_SHIFT_V, FREE, 3), .sliding_window = 5},
};

enum { SPECIALS = sizeof specials / sizeof *specials };

static void check_types(kvs_runtime *rt, kvs_dtype cache, double least)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = DIM, .ffn = 96, .context = CONTEXT};

    for (size_t i = 0; i < SPECIALS; i++) {
        const kvs_model_config config = support_config(&specials[i], &sizes);
        kvs_model *model = support_model(rt, &config, i + 1);

        for (size_t t = 0; t < TYPES; t++) {
            kvs_model *opened = open_as_gguf(rt, model, types[t].gguf, dir);
            char name[64];
            walk_truth truth;

            snprintf(name, sizeof name, "%s, model %zu as %s", kvs_runtime_cpu_level(rt), i,
                     types[t].name);
            truth =
                walk_truth_of(opened, name, cache, types[t].limit > least ? types[t].limit : least);
            walk(&truth, 10, session_path);
            walk_truth_release(&truth);
            kvs_model_free(opened);
        }
        kvs_model_free(model);
    }
}

/* The reference, which decodes a block for each value, would take minutes; test_levels.c compares
 * it with the others. */
static void opened_models_of_every_type_walk(void **state)
{
    (void)state;
    for (size_t l = 0; strcmp(support_level(l), "reference") != 0; l++) {
        kvs_runtime *rt = support_runtime(support_level(l));

        check_types(rt, KVS_DTYPE_F32, 0);
        kvs_runtime_free(rt);
    }
}

static void opened_models_walk_with_halves(void **state)
{
    kvs_runtime *rt = support_runtime(NULL);

    (void)state;
    check_types(rt, KVS_DTYPE_F16, HALVES_LIMIT);
    kvs_runtime_free(rt);
}

/* ---- F16 keys and values ---- */

static const family_scope scope = {
    .sizes = {.vocab = VOCAB, .dim = 24, .ffn = 40, .context = CONTEXT}, .levels = 1};
static const family_scope long_scope = {
    .sizes = {.vocab = VOCAB, .dim = 24, .ffn = 40, .context = 600}, .levels = 1};

static void check_halves(const kvs_model *model, const char *name)
{
    walk_truth truth = walk_truth_of(model, name, KVS_DTYPE_F16, HALVES_LIMIT);

    walk(&truth, 10, session_path);
    walk_truth_release(&truth);
}

static void check_sliding_halves(const kvs_model *model, const char *name)
{
    if (model->config.sliding_window > 0)
        check_halves(model, name);
}

static void halves_of_the_whole_family_walk(void **state)
{
    (void)state;
    family_each_model(&scope, check_halves);
    family_each_model(&long_scope, check_sliding_halves);
}

static void halves_walk_on_every_level(void **state)
{
    const kvs_model_config special = {SUPPORT_SHIFT(7, FREE, 3), .kv_heads = 2, .sliding_window = 5,
                                      .sliding_layers = 1 << 1};
    const kvs_model_config config = support_config(&special, &scope.sizes);

    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        kvs_runtime *rt = support_runtime(support_level(l));
        kvs_model *model = support_model(rt, &config, 4);

        check_halves(model, support_level(l));
        kvs_model_free(model);
        kvs_runtime_free(rt);
    }
}

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    int32_t ids[CONTEXT];
} fixture;

static int make_model(void **state)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 24, .ffn = 40, .context = CONTEXT};
    const kvs_model_config special = {SUPPORT_SHIFT(3, FREE, 2), .kv_heads = 2};
    const kvs_model_config config = support_config(&special, &sizes);
    fixture *f = test_malloc(sizeof *f);

    set_up(NULL);
    f->rt = support_runtime(NULL);
    f->model = support_model(f->rt, &config, 2);
    support_fill_ids(f->ids, CONTEXT, 5, VOCAB);
    *state = f;
    return 0;
}

static int free_model(void **state)
{
    fixture *f = *state;

    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
    test_free(f);
    return tear_down(NULL);
}

static kvs_session *session_with(const fixture *f, kvs_dtype cache)
{
    const kvs_session_options options = {.size = sizeof(kvs_session_options), .cache = cache};
    kvs_session *s = NULL;

    assert_int_equal(kvs_session_create(&s, f->model, &options, NULL), KVS_OK);
    return s;
}

/* A cache of type F16, which has 11 bits, changes the logits slightly. */
static void halves_are_near_but_not_the_same(void **state)
{
    fixture *f = *state;
    kvs_session *plain = session_with(f, KVS_DTYPE_F32), *halves = session_with(f, KVS_DTYPE_F16);
    float a[VOCAB], b[VOCAB];

    assert_int_equal(kvs_session_feed(plain, f->ids, 100, a, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(halves, f->ids, 100, b, NULL), KVS_OK);
    assert_memory_not_equal(a, b, sizeof a);
    support_expect_close(b, a, VOCAB, 5e-3, "halves");
    kvs_session_free(plain);
    kvs_session_free(halves);
}

/* kvs_perplexity() and kvs_score() have the same loss for each type of cache. */
static void perplexity_sees_the_same_halves(void **state)
{
    fixture *f = *state;
    kvs_perplexity_options options = {.window = CONTEXT, .stride = CONTEXT};
    kvs_perplexity_result result[2];
    double logprobs[CONTEXT - 1];
    double sum;
    int greedy;

    for (int i = 0; i < 2; i++) {
        kvs_session *s = session_with(f, i ? KVS_DTYPE_F16 : KVS_DTYPE_F32);

        options.cache = i ? KVS_DTYPE_F16 : KVS_DTYPE_F32;
        assert_int_equal(kvs_perplexity(&result[i], f->model, f->ids, CONTEXT, &options, NULL),
                         KVS_OK);
        assert_int_equal(kvs_score(&sum, &greedy, logprobs, s, f->ids, CONTEXT, 1, 0, NULL),
                         KVS_OK);
        assert_true(fabs(result[i].loss + sum / (CONTEXT - 1)) < 1e-5);
        kvs_session_free(s);
    }
    assert_true(result[0].loss != result[1].loss);
    options.cache = KVS_DTYPE_BF16;
    assert_int_equal(kvs_perplexity(&result[0], f->model, f->ids, CONTEXT, &options, NULL),
                     KVS_E_INVALID);
}

static void half_the_memory_and_as_planned(void **state)
{
    fixture *f = *state;
    const kvs_session_options halves = {.size = sizeof(kvs_session_options),
                                        .cache = KVS_DTYPE_F16};
    const uint64_t cache = (uint64_t)2 * CONTEXT * f->model->config.layers * 2 *
                           (f->model->config.dim / f->model->config.heads) * sizeof(float);
    const size_t live = kvsi_memory_live();
    const uint64_t planned = kvs_session_bytes(&f->model->config, &halves);
    kvs_session_options options = halves;
    kvs_session *s;

    assert_int_equal(kvs_session_bytes(&f->model->config, NULL) - planned, cache / 2);
    assert_int_equal(
        kvs_runner_create(&options.runner, f->model,
                          &(kvs_runner_options){.size = sizeof(kvs_runner_options), .sequences = 1},
                          NULL),
        KVS_OK);
    {
        const size_t before = kvsi_memory_live();

        assert_int_equal(kvs_session_create(&s, f->model, &options, NULL), KVS_OK);
        assert_in_range(kvsi_memory_live() - before, planned, planned + 512);
    }
    kvs_session_free(s);
    kvs_runner_free(options.runner);
    assert_int_equal(kvsi_memory_live(), live);
}

/* Files and forks keep the type of the cache and continue like the session. */
static void files_and_forks_keep_the_type(void **state)
{
    fixture *f = *state;
    kvs_session *s = session_with(f, KVS_DTYPE_F16), *loaded, *fork;
    float logits[3][VOCAB];

    assert_int_equal(kvs_session_feed(s, f->ids, 70, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_save(s, session_path, NULL), KVS_OK);
    assert_int_equal(kvs_session_load(&loaded, f->model, session_path, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_copy(&fork, s, SIZE_MAX, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(s, f->ids, 1, logits[0], NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(loaded, f->ids, 1, logits[1], NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(fork, f->ids, 1, logits[2], NULL), KVS_OK);
    assert_memory_equal(logits[0], logits[1], sizeof logits[0]);
    assert_memory_equal(logits[0], logits[2], sizeof logits[0]);
    kvs_session_free(s);
    kvs_session_free(loaded);
    kvs_session_free(fork);
}

static void patch_file(const char *path, const char *old, const char *new)
{
    kvsi_text text = {0};
    char *data;
    size_t size;

    assert_int_equal(strlen(old), strlen(new));
    assert_int_equal(kvsi_file_read(&data, &size, path, 1 << 24, NULL), KVS_OK);
    put_bytes(&text, data, size);
    memcpy(text.data + find_bytes(&text, old), new, strlen(new));
    kvsi_free(write_file(dir, "a.session", text.data, text.length));
    kvsi_text_release(&text);
    kvsi_free(data);
}

static void files_that_lie_about_the_type_are_refused(void **state)
{
    fixture *f = *state;
    kvs_session *s = session_with(f, KVS_DTYPE_F16), *loaded = s;
    kvs_err err;

    assert_int_equal(kvs_session_feed(s, f->ids, 9, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_session_save(s, session_path, NULL), KVS_OK);
    patch_file(session_path, "\"cache\":\"F16\"", "\"cache\":\"F32\"");
    assert_int_equal(kvs_session_load(&loaded, f->model, session_path, NULL, &err), KVS_E_FORMAT);
    assert_non_null(strstr(err.message, "tensor 'layers.0.k' has type F16, expected F32"));
    patch_file(session_path, "\"cache\":\"F32\"", "\"cache\":\"F99\"");
    assert_int_equal(kvs_session_load(&loaded, f->model, session_path, NULL, &err),
                     KVS_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "has a cache of 'F99', expected F32, F16 or Q8_0"));
    assert_null(loaded);
    kvs_session_free(s);
}

static void other_types_and_other_runners_are_refused(void **state)
{
    fixture *f = *state;
    kvs_model *other = support_model(f->rt, &f->model->config, 3);
    kvs_session_options options = {.size = sizeof(kvs_session_options), .cache = KVS_DTYPE_Q4_0};
    kvs_session *s;
    kvs_err err;

    assert_int_equal(kvs_session_create(&s, f->model, &options, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "(f16) or"));
    options.cache = KVS_DTYPE_Q8_0;
    assert_int_equal(kvs_session_create(&s, f->model, &options, &err), KVS_E_UNSUPPORTED);
    assert_string_equal(err.message, "a cache of type Q8_0 needs a head size that is a multiple of "
                                     "32, this model's is 6");
    options.cache = KVS_DTYPE_F16;
    assert_int_equal(
        kvs_runner_create(&options.runner, other,
                          &(kvs_runner_options){.size = sizeof(kvs_runner_options), .sequences = 1},
                          NULL),
        KVS_OK);
    assert_int_equal(kvs_session_create(&s, f->model, &options, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "the runner is another model's");
    assert_null(s);
    kvs_runner_free(options.runner);
    kvs_model_free(other);
}

/* Sessions with caches of both types share a pass.  Their bits are those of each session alone, for
 * any number of threads. */
static void both_types_share_a_pass(void **state)
{
    fixture *f = *state;
    float alone[2][VOCAB], together[2][VOCAB];
    kvs_session_options options = {.size = sizeof(kvs_session_options)};
    kvs_session *s[2];
    kvs_runner *runner;

    assert_int_equal(
        kvs_runner_create(&runner, f->model,
                          &(kvs_runner_options){.size = sizeof(kvs_runner_options), .sequences = 2},
                          NULL),
        KVS_OK);
    options.runner = runner;
    for (int i = 0; i < 2; i++) {
        options.cache = i ? KVS_DTYPE_F16 : KVS_DTYPE_F32;
        assert_int_equal(kvs_session_create(&s[i], f->model, &options, NULL), KVS_OK);
        assert_int_equal(kvs_session_feed(s[i], f->ids, 90, alone[i], NULL), KVS_OK);
        kvs_session_reset(s[i]);
    }
    assert_int_equal(kvs_runner_feed(runner,
                                     (kvs_feed[]){{.size = sizeof(kvs_feed),
                                                   .session = s[0],
                                                   .ids = f->ids,
                                                   .count = 90,
                                                   .logits = together[0]},
                                                  {.size = sizeof(kvs_feed),
                                                   .session = s[1],
                                                   .ids = f->ids,
                                                   .count = 90,
                                                   .logits = together[1]}},
                                     2, NULL),
                     KVS_OK);
    assert_memory_equal(alone, together, sizeof alone);
    kvs_session_free(s[0]);
    kvs_session_free(s[1]);
    kvs_runner_free(runner);
}

static void steps_do_not_allocate(void **state)
{
    fixture *f = *state;
    kvs_session *s = session_with(f, KVS_DTYPE_F16);
    float logits[VOCAB];
    uint64_t before;

    assert_int_equal(kvs_session_feed(s, f->ids, 70, NULL, NULL), KVS_OK);
    before = kvsi_memory_allocations();
    for (size_t i = 0; i < 20; i++)
        assert_int_equal(kvs_session_feed(s, f->ids + i, 1, logits, NULL), KVS_OK);
    assert_int_equal(kvs_session_rewind(s, 66, NULL), KVS_OK);
    assert_int_equal(kvsi_memory_allocations(), before);
    kvs_session_free(s);
}

#define WITH_MODEL(test) cmocka_unit_test_setup_teardown(test, make_model, free_model)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(opened_models_of_every_type_walk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(opened_models_walk_with_halves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(halves_of_the_whole_family_walk, set_up, tear_down),
        cmocka_unit_test_setup_teardown(halves_walk_on_every_level, set_up, tear_down),
        WITH_MODEL(halves_are_near_but_not_the_same),
        WITH_MODEL(perplexity_sees_the_same_halves),
        WITH_MODEL(half_the_memory_and_as_planned),
        WITH_MODEL(files_and_forks_keep_the_type),
        WITH_MODEL(files_that_lie_about_the_type_are_refused),
        WITH_MODEL(other_types_and_other_runners_are_refused),
        WITH_MODEL(both_types_share_a_pass),
        WITH_MODEL(steps_do_not_allocate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
