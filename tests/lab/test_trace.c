/* Calls of kvs_model_trace(): names choose what is visited, memory is allocated only for that, a
 * callback can stop the trace, and wrong arguments are refused.  kvs_patterns() visits the same
 * values. */
#include "base/files.h"
#include "base/memory.h"
#include "base/text.h"
#include "trace.h"

#include <stdio.h>
#include <string.h>

/* ---- names ---- */

enum { NAMES_MAX = 5 };

/* The names that a trace is given and those that it visits; both lists end with NULL. */
typedef struct filter {
    const char *names[NAMES_MAX], *visited[NAMES_MAX];
} filter;

static size_t count_names(const char *const *names)
{
    size_t count = 0;

    while (count < NAMES_MAX && names[count])
        count++;
    return count;
}

/* Checks which activations are visited, and that their values are those of a trace of all. */
static void check_filter(const trace_fixture *f, const trace_capture *all, const filter *by)
{
    const size_t count = count_names(by->visited);
    trace_capture c;

    trace_run(&c, f->model, f->ids, TRACE_TOKENS, by->names, count_names(by->names));
    assert_int_equal(c.count, count);
    for (size_t i = 0; i < count; i++) {
        const trace_activation *found = &c.list[i], *expected = trace_find(all, by->visited[i], 0);

        assert_non_null(expected);
        assert_string_equal(found->name, by->visited[i]);
        assert_int_equal(found->count, expected->count);
        assert_memory_equal(found->values, expected->values, found->count * sizeof(float));
    }
    trace_capture_release(&c);
}

static void names_choose_what_is_visited(void **state)
{
    static const filter filters[] = {
        {{NULL}, {NULL}},
        {{"hook_embed"}, {"hook_embed"}},
        {{"logits"}, {"logits"}},
        {{"ln_final.hook_normalized"}, {"ln_final.hook_normalized"}},
        {{"blocks.0.hook_resid_pre"}, {"blocks.0.hook_resid_pre"}},
        {{"blocks.1.hook_resid_post"}, {"blocks.1.hook_resid_post"}},
        {{"blocks.1.mlp.hook_pre_linear"}, {"blocks.1.mlp.hook_pre_linear"}},
        {{"blocks.*.attn.hook_rot_q"}, {"blocks.0.attn.hook_rot_q", "blocks.1.attn.hook_rot_q"}},
        {{"blocks.0.attn.hook_v"}, {"blocks.0.attn.hook_v"}},
        {{"blocks.1.attn.hook_attn_scores"}, {"blocks.1.attn.hook_attn_scores"}},
        {{"blocks.1.attn.hook_content"}, {"blocks.1.attn.hook_content"}},
        {{"blocks.0.attn.hook_content", "blocks.0.attn.hook_pattern"},
         {"blocks.0.attn.hook_pattern", "blocks.0.attn.hook_content"}},
        /* Each is visited once, in the order of the computation. */
        {{"logits", "blocks.1.hook_attn_out", "blocks.*.hook_attn_out", "hook_embed"},
         {"hook_embed", "blocks.0.hook_attn_out", "blocks.1.hook_attn_out", "logits"}},
        /* A model with rotary positions has no position embedding. */
        {{"hook_pos_embed"}, {NULL}},
    };
    trace_fixture f = trace_fixture_create(support_runtime(NULL));
    trace_capture all;

    (void)state;
    trace_run(&all, f.model, f.ids, TRACE_TOKENS, NULL, 0);
    for (size_t i = 0; i < sizeof filters / sizeof *filters; i++)
        check_filter(&f, &all, &filters[i]);
    trace_capture_release(&all);
    trace_fixture_release(&f);
}

/* kvs_activation_name() and the table in docs/api.md list the same names. */
static void names_are_listed(void **state)
{
    size_t count = 0, size;
    char *page, row[TRACE_NAME + 8];

    (void)state;
    assert_int_equal(kvsi_file_read(&page, &size, KVSI_TESTS_DIR "/../docs/api.md", 1 << 20, NULL),
                     KVS_OK);
    for (const char *name; (name = kvs_activation_name(count)); count++) {
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(name, kvs_activation_name(i));
        snprintf(row, sizeof row, "\n| `%s` ", name);
        if (!strstr(page, row))
            fail_msg("docs/api.md does not have '%s'", name);
    }
    kvsi_free(page);
    assert_int_equal(count, 26);
    assert_string_equal(kvs_activation_name(0), "hook_embed");
    assert_string_equal(kvs_activation_name(2), "blocks.*.hook_resid_pre");
    assert_string_equal(kvs_activation_name(25), "logits");
    assert_null(kvs_activation_name(SIZE_MAX));
}

/* ---- kvs_patterns() ---- */

typedef struct heads_seen {
    const trace_capture *c;
    size_t count;
} heads_seen;

static void compare_pattern(void *user, const kvs_pattern *p)
{
    heads_seen *seen = user;
    const size_t square = TRACE_TOKENS * TRACE_TOKENS;

    assert_int_equal(p->layer, seen->count / 4);
    assert_int_equal(p->head, seen->count % 4);
    assert_int_equal(p->kv_head, p->head / 2);
    assert_int_equal(p->tokens, TRACE_TOKENS);
    assert_memory_equal(
        p->places, trace_values(seen->c, "blocks.*.attn.hook_pattern", p->layer) + p->head * square,
        square * sizeof *p->places);
    assert_memory_equal(p->contents,
                        trace_values(seen->c, "blocks.*.attn.hook_content", p->layer) +
                            p->head * square,
                        square * sizeof *p->contents);
    seen->count++;
}

static void patterns_are_activations(void **state)
{
    trace_fixture f = trace_fixture_create(support_runtime(NULL));
    trace_capture c;
    heads_seen seen = {.c = &c};

    (void)state;
    trace_run(&c, f.model, f.ids, TRACE_TOKENS, NULL, 0);
    assert_int_equal(kvs_patterns(f.model, f.ids, TRACE_TOKENS, compare_pattern, &seen, NULL),
                     KVS_OK);
    assert_int_equal(seen.count, 8);
    assert_int_equal(kvs_patterns(f.model, f.ids, TRACE_TOKENS, NULL, NULL, NULL), KVS_E_INVALID);
    trace_capture_release(&c);
    trace_fixture_release(&f);
}

/* ---- memory ---- */

typedef struct usage {
    size_t before, live; /* bytes */
} usage;

static int measure(void *user, const kvs_activation *a)
{
    usage *u = user;

    (void)a;
    u->live = kvsi_memory_live() - u->before;
    return 0;
}

/* Returns how many bytes a trace of one name holds when it calls the callback; 0 = not visited. */
static size_t memory_for(const kvs_model *model, const int32_t *ids, size_t count, const char *name)
{
    usage u = {.before = kvsi_memory_live()};

    assert_int_equal(kvs_model_trace(model, ids, count, &name, 1, measure, &u, NULL), KVS_OK);
    assert_int_equal(kvsi_memory_live(), u.before);
    return u.live;
}

/* Only scores, patterns and contents need memory of [heads, tokens, tokens]. */
static void squares_are_allocated_on_demand(void **state)
{
    enum { MANY = 256 };
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_V, FREE, 1), .heads = 12};
    const support_sizes sizes_of_many = {
        .vocab = TRACE_VOCAB, .dim = 24, .ffn = 20, .context = MANY};
    const kvs_model_config config = support_config(&special, &sizes_of_many);
    const size_t squares = (size_t)12 * MANY * MANY * sizeof(float);
    kvs_runtime *rt = support_runtime(NULL);
    kvs_model *model = support_model(rt, &config, 7);
    int32_t ids[MANY];
    size_t least;

    (void)state;
    support_fill_ids(ids, MANY, 5, TRACE_VOCAB);
    least = memory_for(model, ids, MANY, "blocks.0.hook_resid_pre");
    for (size_t i = 0; kvs_activation_name(i); i++) {
        const char *name = kvs_activation_name(i);
        const size_t need = kvsi_ends_with(name, "hook_content")       ? 2
                            : kvsi_ends_with(name, "hook_attn_scores") ? 1
                            : kvsi_ends_with(name, "hook_pattern")     ? 1
                                                                       : 0;
        const size_t used = memory_for(model, ids, MANY, name);
        const size_t more = used > least ? used - least : 0;

        if (more < need * squares || more > need * squares + squares / 2)
            fail_msg("'%s' uses %zu bytes more, %zu times [heads, tokens, tokens] are %zu", name,
                     more, need, need * squares);
    }
    kvs_model_free(model);
    kvs_runtime_free(rt);
}

/* ---- failures ---- */

static void expect_failure(kvs_status status, const char *part, const kvs_model *model,
                           const int32_t *ids, size_t count, const char *name)
{
    trace_capture c = {0};
    kvs_err err;

    if (kvs_model_trace(model, ids, count, name ? &name : NULL, name != NULL, trace_take, &c,
                        &err) != status)
        fail_msg("the status is not %d: %s", (int)status, name ? name : part);
    assert_int_equal(err.status, status);
    if (!strstr(err.message, part))
        fail_msg("'%s' is not in '%s'", part, err.message);
    assert_int_equal(c.count, 0);
}

static void wrong_arguments_fail(void **state)
{
    trace_fixture f = trace_fixture_create(support_runtime(NULL));
    const char *const names[] = {"logits", NULL};
    int32_t wrong[] = {1, 2, TRACE_VOCAB}, many[33] = {0};
    trace_capture c = {0};
    kvs_err err;

    (void)state;
    expect_failure(KVS_E_INVALID, "model is NULL", NULL, f.ids, TRACE_TOKENS, NULL);
    expect_failure(KVS_E_INVALID, "ids is NULL", f.model, NULL, TRACE_TOKENS, NULL);
    expect_failure(KVS_E_INVALID, "0 tokens", f.model, f.ids, 0, NULL);
    expect_failure(KVS_E_LIMIT, "the context is 32", f.model, many, 33, NULL);
    expect_failure(KVS_E_INVALID, "token 2 is id 19", f.model, wrong, 3, NULL);
    wrong[2] = -1;
    expect_failure(KVS_E_INVALID, "token 2 is id -1", f.model, wrong, 3, "logits");
    assert_int_equal(kvs_model_trace(f.model, f.ids, TRACE_TOKENS, NULL, 0, NULL, NULL, &err),
                     KVS_E_INVALID);
    assert_non_null(strstr(err.message, "visit is NULL"));
    assert_int_equal(kvs_model_trace(f.model, f.ids, TRACE_TOKENS, names, 2, trace_take, &c, &err),
                     KVS_E_INVALID);
    assert_non_null(strstr(err.message, "name 1"));
    assert_int_equal(kvs_model_trace(f.model, f.ids, 0, NULL, 0, trace_take, &c, NULL),
                     KVS_E_INVALID);
    assert_int_equal(c.count, 0);
    trace_fixture_release(&f);
}

static void unknown_names_fail_with_a_hint(void **state)
{
    static const struct {
        const char *name, *part;
    } wrong[] = {
        {"blocks.1.attn.hook_patern",
         "'blocks.1.attn.hook_patern'; did you mean 'blocks.1.attn.hook_pattern'?"},
        {"blocks.*.hook_resid_port", "did you mean 'blocks.*.hook_resid_post'?"},
        {"hook_embd", "did you mean 'hook_embed'?"},
        {"logit", "did you mean 'logits'?"},
        {"blocks.hook_resid_pre", "unknown activation"},
        {"blocks.00.hook_resid_pre", "did you mean 'blocks.*.hook_resid_pre'?"},
        {"blocks.-1.hook_resid_pre", "did you mean 'blocks.*.hook_resid_pre'?"},
        {"blocks..hook_resid_pre", "did you mean 'blocks.*.hook_resid_pre'?"},
        {"blocks.1x.hook_resid_pre", "did you mean 'blocks.*.hook_resid_pre'?"},
        {"blocks.0.logits", "unknown activation 'blocks.0.logits'"},
        {"", "unknown activation ''"},
        {"what nobody would call anything", "kvs_activation_name()"},
        {"blocks.2.hook_resid_pre", "the last of 2 layers is 1"},
        {"blocks.99999999999999999999999.hook_resid_pre", "the last of 2 layers is 1"},
        {"blocks.18446744073709551616.hook_resid_pre", "the last of 2 layers is 1"},
    };
    trace_fixture f = trace_fixture_create(support_runtime(NULL));
    char longest[2000];

    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        expect_failure(KVS_E_INVALID, wrong[i].part, f.model, f.ids, TRACE_TOKENS, wrong[i].name);
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "blocks.0.", strlen("blocks.0."));
    longest[sizeof longest - 1] = '\0';
    expect_failure(KVS_E_INVALID, "unknown activation 'blocks.0.xxx", f.model, f.ids, TRACE_TOKENS,
                   longest);
    trace_fixture_release(&f);
}

/* The callback can stop the trace at every activation, and no memory leaks. */
static void a_callback_can_stop(void **state)
{
    trace_fixture f = trace_fixture_create(support_runtime(NULL));
    size_t all, before;
    trace_capture c;

    (void)state;
    trace_run(&c, f.model, f.ids, TRACE_TOKENS, NULL, 0);
    all = c.count;
    trace_capture_release(&c);
    before = kvsi_memory_live();
    for (size_t i = 1; i <= all; i++) {
        kvs_err err;

        c = (trace_capture){.stop_at = i};
        assert_int_equal(
            kvs_model_trace(f.model, f.ids, TRACE_TOKENS, NULL, 0, trace_take, &c, &err),
            KVS_E_STOPPED);
        assert_int_equal(c.count, i);
        assert_non_null(strstr(err.message, c.list[i - 1].name));
        trace_capture_release(&c);
    }
    assert_int_equal(kvsi_memory_live(), before);
    trace_fixture_release(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_choose_what_is_visited),
        cmocka_unit_test(names_are_listed),
        cmocka_unit_test(patterns_are_activations),
        cmocka_unit_test(squares_are_allocated_on_demand),
        cmocka_unit_test(wrong_arguments_fail),
        cmocka_unit_test(unknown_names_fail_with_a_hint),
        cmocka_unit_test(a_callback_can_stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
