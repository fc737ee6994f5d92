/* Exact mode: the bits of a sequence's logits and log-probabilities depend on its tokens alone, not
 * on chunks, copies, rewinds, files or the other sequences of a pass. */
#include "base/files.h"
#include "base/memory.h"
#include "model_files.h"
#include "walk.h"

#include <stdio.h>
#include <string.h>

enum { VOCAB = 61, CONTEXT = 200, FORGETTING = 520, PROMPT = 150, TOP = 3, OTHERS = 3 };

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

/* ---- models ---- */

/* Heads of 32, 40, 64 and 10 channels; 288 and 330 columns are more than a block of a product
 * has, and are not whole blocks. */
static const kvs_model_config specials[] = {
    {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1), .dim = 128, .heads = 4, .kv_heads = 2,
     .ffn = 330},
    {SUPPORT_SHIFT(7, FREE, 3), .dim = 160, .heads = 4, .kv_heads = 1, .ffn = 90,
     .sliding_window = 5},
    {SUPPORT_SHIFT(KVS_SHIFT_K, DATA, 1), .dim = 128, .heads = 2, .kv_heads = 2, .ffn = 67,
     .positions = KVSI_POSITIONS_ALIBI},
    {SUPPORT_SHIFT(KVS_SHIFT_V, CHANNEL, 2), .dim = 288, .heads = 9, .kv_heads = 3, .ffn = 64,
     .body = KVSI_BODY_GPT2, .sliding_window = 70, .sliding_layers = 1 << 1},
    {.dim = 64, .heads = 1, .kv_heads = 1, .ffn = 96},
    {SUPPORT_SHIFT(7, FREE, 2), .dim = 50, .heads = 5, .kv_heads = 5, .ffn = 31},
    {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, RESIDUAL, 3), .dim = 96, .heads = 4, .kv_heads = 2,
     .ffn = 70, .filters = KVSI_FILTER_ATTENTION | KVSI_FILTER_MLP, .filter_window = 3,
     .mlp_factor = 1, .positions = KVSI_POSITIONS_RELATIVE, .relative_size = 6,
     .relative_extent = 90, .score_growth = 0.3, .score_growth_start = 10, .sliding_window = 20,
     .sliding_layers = 1 << 1, .sliding_head_size = 10},
};

enum { SPECIALS = sizeof specials / sizeof *specials };

static const struct {
    uint32_t gguf;
    const char *name;
    size_t block;
} types[] = {{0, "F32", 1}, {1, "F16", 1}, {30, "BF16", 1}, {8, "Q8_0", 32}, {2, "Q4_0", 32}};

enum { TYPES = sizeof types / sizeof *types };

static const kvs_dtype caches[] = {KVS_DTYPE_F32, KVS_DTYPE_F16, KVS_DTYPE_Q8_0};

enum { CACHES = sizeof caches / sizeof *caches };

static kvs_runtime *runtime(const char *level, int exact, const char *precision)
{
    const kvs_runtime_options options = {.size = sizeof(kvs_runtime_options),
                                         .threads = 1,
                                         .cpu_level = level,
                                         .exact = exact,
                                         .precision = precision};
    kvs_runtime *rt;

    assert_int_equal(kvs_runtime_create(&rt, &options, NULL), KVS_OK);
    return rt;
}

static kvs_model *make_model(kvs_runtime *rt, size_t index)
{
    const support_sizes sizes = {
        .vocab = VOCAB,
        .dim = 64,
        .ffn = 64,
        /* so long that the narrow window drops rows */
        .context = specials[index].sliding_window == 5 ? FORGETTING : CONTEXT,
    };
    const kvs_model_config config = support_own_config(&specials[index], &sizes);

    return support_model(rt, &config, index + 1);
}

static int takes(const kvs_model *model, kvs_dtype cache)
{
    return cache != KVS_DTYPE_Q8_0 || kvsi_layer_shape_of(&model->config, 0).head_size % 32 == 0;
}

/* ---- results of one sequence ---- */

typedef struct results {
    float logits[VOCAB];
    double own[PROMPT], best[PROMPT * TOP];
    int32_t ids[PROMPT * TOP];
} results;

static kvs_feed feed_of(results *r, kvs_session *session, const int32_t *ids, size_t from,
                        size_t count)
{
    return (kvs_feed){.size = sizeof(kvs_feed),
                      .session = session,
                      .ids = ids + from,
                      .count = count,
                      .logits = r->logits,
                      .own_logprobs = r->own + from,
                      .top = TOP,
                      .top_ids = r->ids + TOP * from,
                      .top_logprobs = r->best + TOP * from};
}

static kvs_session *session_of(const kvs_model *model, kvs_runner *runner, kvs_dtype cache)
{
    kvs_session *session;

    assert_int_equal(kvs_session_create(&session, model,
                                        &(kvs_session_options){.size = sizeof(kvs_session_options),
                                                               .runner = runner,
                                                               .cache = cache},
                                        NULL),
                     KVS_OK);
    return session;
}

/* Feeds the prompt in chunks of `chunk` tokens, or of random sizes if that is 0. */
static void run_alone(results *out, const kvs_model *model, const int32_t *ids, kvs_dtype cache,
                      size_t chunk)
{
    kvs_session *session = session_of(model, NULL, cache);
    kvsi_random random;

    memset(out, 0, sizeof *out);
    kvsi_random_init(&random, 3, KVSI_RANDOM_DATA, 0);
    for (size_t at = 0, count; at < PROMPT; at += count) {
        kvs_feed feed;

        count = chunk > 0 ? chunk : 1 + kvsi_random_below(&random, 20);
        count = count < PROMPT - at ? count : PROMPT - at;
        feed = feed_of(out, session, ids, at, count);
        assert_int_equal(kvs_runner_feed(NULL, &feed, 1, NULL), KVS_OK);
    }
    kvs_session_free(session);
}

/* The same in passes with other sequences, whose chunks have other sizes. */
static void run_with_others(results *out, const kvs_model *model, const int32_t *ids,
                            kvs_dtype cache)
{
    kvs_session *sessions[OTHERS + 1];
    kvs_runner *runner;
    kvsi_random random;

    memset(out, 0, sizeof *out);
    assert_int_equal(kvs_runner_create(&runner, model,
                                       &(kvs_runner_options){.size = sizeof(kvs_runner_options),
                                                             .sequences = OTHERS + 1,
                                                             .tokens = 40},
                                       NULL),
                     KVS_OK);
    for (size_t s = 0; s <= OTHERS; s++)
        sessions[s] = session_of(model, runner, cache);
    kvsi_random_init(&random, 4, KVSI_RANDOM_DATA, 0);
    for (size_t at = 0, count; at < PROMPT; at += count) {
        kvs_feed feeds[OTHERS + 1];

        count = kvsi_random_below(&random, 3) ? 1 : 1 + kvsi_random_below(&random, 50);
        count = count < PROMPT - at ? count : PROMPT - at;
        for (size_t s = 0; s < OTHERS; s++) {
            const size_t length = kvs_session_length(sessions[s]);

            feeds[s] = (kvs_feed){.size = sizeof(kvs_feed),
                                  .session = sessions[s],
                                  .ids = ids + s,
                                  .count = kvsi_random_below(&random, s == 0 ? 2 : 20)};
            if (length + feeds[s].count > CONTEXT)
                kvs_session_reset(sessions[s]);
        }
        feeds[OTHERS] = feed_of(out, sessions[OTHERS], ids, at, count);
        assert_int_equal(kvs_runner_feed(runner, feeds, OTHERS + 1, NULL), KVS_OK);
    }
    for (size_t s = 0; s <= OTHERS; s++)
        kvs_session_free(sessions[s]);
    kvs_runner_free(runner);
}

static int same(const results *x, const results *y)
{
    return memcmp(x->logits, y->logits, sizeof x->logits) == 0 &&
           memcmp(x->own + 1, y->own + 1, sizeof x->own - sizeof *x->own) == 0 && /* 0 is NaN */
           memcmp(x->best, y->best, sizeof x->best) == 0 &&
           memcmp(x->ids, y->ids, sizeof x->ids) == 0;
}

/* ---- checks ---- */

static void check_feeds(const kvs_model *model, const char *name, kvs_dtype cache)
{
    static results whole, other;
    int32_t ids[PROMPT];

    support_fill_ids(ids, PROMPT, 9, VOCAB);
    run_alone(&whole, model, ids, cache, PROMPT);
    run_alone(&other, model, ids, cache, 0);
    if (!same(&other, &whole))
        fail_msg("%s: random chunks have other bits", name);
    run_alone(&other, model, ids, cache, 1);
    if (!same(&other, &whole))
        fail_msg("%s: single tokens have other bits", name);
    run_with_others(&other, model, ids, cache);
    if (!same(&other, &whole))
        fail_msg("%s: with other sequences there are other bits", name);
}

static void check_model(const kvs_model *model, const char *name, kvs_dtype cache, int walks)
{
    walk_truth truth;

    if (!takes(model, cache))
        return;
    check_feeds(model, name, cache);
    if (!walks)
        return;
    truth = walk_truth_of(model, name, cache, 0);
    walk(&truth, 12, session_path);
    walk_truth_release(&truth);
}

/* Every level with every weight type and every cache; walks on the best level with F32 weights.
 * The reference has one loop for all numbers of rows; it is slow, and is tested with one type.  In
 * bf16 only plain types are tested: others have the same products in both precisions. */
static void check_levels(const char *precision)
{
    const int bf16 = strcmp(precision, "bf16") == 0;

    for (size_t l = 0; support_level(l); l++) {
        const int reference = strcmp(support_level(l), "reference") == 0;
        kvs_runtime *rt = runtime(support_level(l), 1, precision);

        for (size_t i = 0; i < (reference ? 1 : SPECIALS); i++) {
            kvs_model *model = make_model(rt, i);

            for (size_t t = 0; t < (reference ? 1 : TYPES); t++) {
                kvs_model *opened;

                if (bf16 && types[t].block > 1)
                    continue;
                if (model->config.dim % types[t].block != 0 ||
                    model->config.ffn % types[t].block != 0)
                    continue;
                if (t > 0 && model->config.body == KVSI_BODY_GPT2)
                    continue; /* model_files.h has no GGUF file of it */
                opened = t > 0 ? open_as_gguf(rt, model, types[t].gguf, dir) : model;
                for (size_t c = 0; c < (t == 0 && !bf16 ? CACHES : 1); c++) {
                    char name[96];

                    snprintf(name, sizeof name, "%s, %s, model %zu as %s, cache %s",
                             support_level(l), precision, i, types[t].name,
                             kvs_dtype_name(caches[c]));
                    check_model(opened, name, caches[c], l == 0 && t == 0);
                }
                if (opened != model)
                    kvs_model_free(opened);
            }
            kvs_model_free(model);
        }
        kvs_runtime_free(rt);
    }
}

static void bits_depend_on_the_sequence_alone(void **state)
{
    (void)state;
    check_levels("f32");
}

static void bits_depend_on_the_sequence_alone_in_bf16(void **state)
{
    (void)state;
    check_levels("bf16");
}

/* Without the mode, linear layers of F32 sum in another order for few tokens: the checks above can
 * fail. */
static void bits_depend_on_chunks_without_the_mode(void **state)
{
    static results whole, other;
    kvs_runtime *rt = runtime(NULL, 0, "f32");
    kvs_model *model = make_model(rt, 0);
    int32_t ids[PROMPT];

    (void)state;
    support_fill_ids(ids, PROMPT, 9, VOCAB);
    run_alone(&whole, model, ids, KVS_DTYPE_F32, PROMPT);
    run_alone(&other, model, ids, KVS_DTYPE_F32, 1);
    if (strcmp(kvs_runtime_cpu_level(rt), "reference") != 0)
        assert_false(same(&other, &whole));
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(bits_depend_on_the_sequence_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bits_depend_on_the_sequence_alone_in_bf16, set_up,
                                        tear_down),
        cmocka_unit_test(bits_depend_on_chunks_without_the_mode),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
