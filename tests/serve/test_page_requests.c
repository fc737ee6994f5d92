/* Requests of the page: answers agree with the calls of the library that they are made of, and what
 * does not fit is refused. */
#include "base/files.h"
#include "base/folders.h"
#include "base/memory.h"
#include "kvshift/kvshift_lab.h"
#include "serve/lens_routes.h"
#include "serve/page_files.h"
#include "support.h"

#include <math.h>
#include <string.h>

enum { VOCAB = 256, CONTEXT = 128, HEADS = 4 };

static kvs_runtime *rt;
static kvs_model *model, *plain;
static kvs_tokenizer *tokenizer;
static kvs_chat_template *chat;
static kvsi_lens_options options;

static int set_up(void **state)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 32, .ffn = 48, .context = CONTEXT};
    const kvs_model_config shifted = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)},
                           none = {0};
    kvs_model_config config;

    support_dir_setup(state);
    rt = support_exact_runtime();
    config = support_config(&shifted, &sizes);
    model = support_model(rt, &config, 1);
    config = support_config(&none, &sizes);
    plain = support_model(rt, &config, 1);
    if (kvs_tokenizer_load(&tokenizer, "bytes", NULL) != KVS_OK ||
        kvs_chat_template_load(&chat, NULL, "raw", tokenizer, NULL) != KVS_OK)
        return 1;
    options = (kvsi_lens_options){
        .models = {{"shifted", support_dir, model, tokenizer, chat},
                   {"plain", "nowhere", plain, tokenizer, NULL}},
        .model_count = 2,
        .runs = support_dir,
    };
    return 0;
}

static int tear_down(void **state)
{
    kvs_chat_template_free(chat);
    kvs_tokenizer_free(tokenizer);
    kvs_model_free(model);
    kvs_model_free(plain);
    kvs_runtime_free(rt);
    return support_dir_teardown(state);
}

static kvs_status reply(kvsi_lens_answer *out, const char *path, const char *body, kvs_err *err)
{
    const kvsi_lens_call call = {.options = &options};
    const kvsi_lens_route *route = kvsi_lens_route_of(path);

    *out = (kvsi_lens_answer){0};
    assert_non_null(route);
    return kvsi_lens_reply(out, route, &call, body, strlen(body), err);
}

/* The answer as JSON, which the caller releases. */
static json_t *ask(const char *path, const char *body)
{
    kvsi_lens_answer out;
    kvs_err err = {0};
    json_t *value;

    if (reply(&out, path, body, &err) != KVS_OK)
        fail_msg("%s %s: %s", path, body, err.message);
    assert_string_equal(out.type, "application/json");
    value = json_loads(out.body.data, JSON_ALLOW_NUL, NULL); /* token 0 is a NUL */
    assert_non_null(value);
    kvsi_text_release(&out.body);
    return value;
}

static void refuse(const char *path, const char *body, const char *message)
{
    kvsi_lens_answer out;
    kvs_err err = {0};

    if (reply(&out, path, body, &err) == KVS_OK || !strstr(err.message, message))
        fail_msg("%s %s: '%s', expected '%s'", path, body, err.message, message);
    assert_null(out.body.data);
}

static void make_dir(const char *path)
{
    int made;

    assert_int_equal(kvsi_dir_make(path, &made, NULL), KVS_OK);
}

static const json_t *at(const json_t *list, size_t index)
{
    return json_array_get(list, index);
}

/* {"ids": [...], MORE} */
static char *with_ids(kvsi_text *out, const int32_t *ids, size_t count, const char *more)
{
    kvsi_text_add(out, "{\"ids\":[");
    for (size_t i = 0; i < count; i++)
        kvsi_text_format(out, i > 0 ? ",%d" : "%d", (int)ids[i]);
    kvsi_text_format(out, "]%s}", more);
    return out->data;
}

/* ---- models and checkpoints ------------------------------------------------------------------ */

static void test_model(void **state)
{
    json_t *about = ask("/lens/model", "");
    const json_t *first = at(json_object_get(about, "models"), 0);
    const json_t *second = at(json_object_get(about, "models"), 1);
    const json_t *shift = json_object_get(first, "shift");
    double taps[2];

    (void)state;
    assert_string_equal(json_string_value(json_object_get(first, "name")), "shifted");
    assert_int_equal(json_integer_value(json_object_get(first, "context")), CONTEXT);
    assert_int_equal(json_array_size(json_object_get(first, "layers")), 2);
    assert_true(json_is_true(json_object_get(first, "chat")));
    for (size_t layer = 0; layer < 2; layer++) {
        for (size_t head = 0; head < HEADS; head++) {
            const json_t *k = at(at(json_object_get(shift, "k"), layer), head);
            const json_t *v = at(at(json_object_get(shift, "v"), layer), head);

            kvs_model_taps(taps, NULL, model, layer, KVS_SHIFT_K, head, NULL);
            assert_true(json_number_value(at(k, 0)) == taps[0]);
            assert_true(json_number_value(at(k, 1)) == taps[1]);
            kvs_model_taps(taps, NULL, model, layer, KVS_SHIFT_V, head, NULL);
            assert_true(json_number_value(at(v, 0)) == taps[0]);
        }
    }
    assert_int_equal(json_object_size(json_object_get(second, "shift")), 0);
    json_decref(about);
}

/* Complete checkpoints are listed by their steps, others are not. */
static void test_checkpoints(void **state)
{
    static const char *const steps[] = {"step-00000020", "step-00000005", "step-00000030"};
    char *ckpt = kvsi_path_join(support_dir, "ckpt");
    json_t *found;
    const json_t *list;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        char *dir = kvsi_path_join(ckpt, steps[i]), *done = kvsi_path_join(dir, "DONE");

        make_dir(dir);
        assert_int_equal(kvs_model_save(model, dir, NULL), KVS_OK);
        if (i < 2)
            assert_int_equal(kvsi_file_write_text(done, "x", NULL), KVS_OK);
        kvsi_free(done);
        kvsi_free(dir);
    }
    found = ask("/lens/checkpoints", "{}");
    list = json_object_get(found, "checkpoints");
    assert_int_equal(json_array_size(list), 2);
    assert_int_equal(json_integer_value(json_object_get(at(list, 0), "step")), 5);
    assert_int_equal(json_integer_value(json_object_get(at(list, 1), "step")), 20);
    json_decref(found);
    found = ask("/lens/checkpoints", "{\"model\": \"plain\"}");
    assert_int_equal(json_array_size(json_object_get(found, "checkpoints")), 0);
    json_decref(found);
    for (size_t i = 0; i < 3; i++) {
        char *dir = kvsi_path_join(ckpt, steps[i]);

        assert_int_equal(kvsi_dir_remove(dir, NULL), KVS_OK);
        kvsi_free(dir);
    }
    assert_int_equal(kvsi_dir_remove(ckpt, NULL), KVS_OK);
    kvsi_free(ckpt);
}

/* ---- tokens ---------------------------------------------------------------------------------- */

/* Texts add up to the text: the bytes of a character are shown with its last token. */
static void test_tokens(void **state)
{
    json_t *found = ask("/lens/tokens", "{\"text\": \"a\\u00e9b\"}");
    const json_t *texts = json_object_get(found, "texts");

    (void)state;
    assert_int_equal(json_array_size(json_object_get(found, "ids")), 4);
    assert_string_equal(json_string_value(at(texts, 0)), "a");
    assert_string_equal(json_string_value(at(texts, 1)), "");
    assert_string_equal(json_string_value(at(texts, 2)), "\xc3\xa9");
    assert_string_equal(json_string_value(at(texts, 3)), "b");
    json_decref(found);

    found =
        ask("/lens/tokens",
            "{\"messages\": [{\"role\": \"user\", \"content\": \"hi\"}], \"model\": \"shifted\"}");
    assert_int_equal(json_integer_value(at(json_object_get(found, "ids"), 0)), 'h');
    json_decref(found);

    found = ask("/lens/tokens", "{\"ids\": [104, 105]}");
    assert_string_equal(json_string_value(at(json_object_get(found, "texts"), 1)), "i");
    json_decref(found);
    refuse("/lens/tokens", "{\"messages\": [], \"model\": \"plain\"}", "no chat template");
    refuse("/lens/tokens", "{}", "needs one of");
    refuse("/lens/tokens", "{\"text\": 3}", "needs one of");
    refuse("/lens/tokens", "{\"ids\": [[[[[[[[[[[[[[[[1]]]]]]]]]]]]]]]]}", "nested more than 16");
}

/* ---- log-probabilities ----------------------------------------------------------------------- */

/* Log-probabilities of a session with these taps for keys of layer 1, head 2; NULL = its own. */
static void expect_run(const char *body, const int32_t *ids, size_t count, const double *taps)
{
    json_t *found = ask("/lens/run", body);
    const json_t *logprobs = json_object_get(found, "logprobs");
    const json_t *next = json_object_get(found, "next");
    double own[CONTEXT], top[3 * CONTEXT];
    int32_t top_ids[3 * CONTEXT];
    kvs_session *session;
    kvs_feed feed;

    assert_int_equal(kvs_session_create(&session, model, NULL, NULL), KVS_OK);
    if (taps)
        assert_int_equal(kvs_session_set_taps(session, 1, KVS_SHIFT_K, 2, taps, NULL), KVS_OK);
    kvs_feed_init(&feed, sizeof feed);
    feed.session = session;
    feed.ids = ids;
    feed.count = count;
    feed.own_logprobs = own;
    feed.top = 3;
    feed.top_ids = top_ids;
    feed.top_logprobs = top;
    assert_int_equal(kvs_runner_feed(NULL, &feed, 1, NULL), KVS_OK);
    assert_int_equal(json_array_size(logprobs), count);
    assert_true(json_is_null(at(logprobs, 0)));
    for (size_t i = 1; i < count; i++)
        assert_true(json_number_value(at(logprobs, i)) == own[i]);
    assert_int_equal(json_array_size(next), count);
    for (size_t i = 0; i < 3 * count; i++) {
        const json_t *choice = at(at(next, i / 3), i % 3);

        assert_int_equal(json_integer_value(json_object_get(choice, "id")), top_ids[i]);
        assert_true(json_number_value(json_object_get(choice, "logprob")) == top[i]);
    }
    kvs_session_free(session);
    json_decref(found);
}

static void test_run(void **state)
{
    static const double swapped[] = {0.75, -0.25};
    kvsi_text own = {0}, changed = {0};
    int32_t ids[40];

    (void)state;
    support_fill_ids(ids, 40, 1, VOCAB);
    expect_run(with_ids(&own, ids, 40, ",\"top\":3"), ids, 40, NULL);
    expect_run(with_ids(&changed, ids, 40,
                        ",\"top\":3,\"edits\":[{\"layer\":1,\"target\":\"k\",\"head\":2,"
                        "\"taps\":[0.75,-0.25]}]"),
               ids, 40, swapped);
    kvsi_text_release(&own);
    kvsi_text_release(&changed);
}

static void test_refused_runs(void **state)
{
    static const struct {
        const char *body, *message;
    } cases[] = {
        {"{}", "'ids' must be a list"},
        {"{\"ids\": 3}", "'ids' must be a list"},
        {"{\"ids\": []}", "0 tokens"},
        {"{\"ids\": [1, \"a\"]}", "element 1"},
        {"{\"ids\": [256]}", "from 0 to 255"},
        {"{\"ids\": [-1]}", "from 0 to 255"},
        {"{\"ids\": [1], \"top\": 21}", "at most 20"},
        {"{\"ids\": [1], \"top\": -1}", "top"},
        {"{\"ids\": [1], \"top\": 1.5}", "top"},
        {"{\"ids\": [1], \"model\": \"third\"}", "not on this server"},
        {"{\"ids\": [1], \"model\": 3}", "model"},
        {"{\"ids\": [1], \"other\": 3}", "'other' is not known"},
        {"{\"ids\": [1], \"edits\": {}}", "'edits' must be a list"},
        {"{\"ids\": [1], \"edits\": [3]}", "element 0: it must be an object"},
        {"{\"ids\": [1], \"edits\": [{\"target\": \"x\"}]}", "expected k, v or q"},
        {"{\"ids\": [1], \"edits\": [{\"target\": \"k\", \"taps\": [1]}]}", "expected 2"},
        {"{\"ids\": [1], \"edits\": [{\"target\": \"k\", \"taps\": [1, null]}]}", "element 0"},
        {"{\"ids\": [1], \"edits\": [{\"target\": \"q\", \"taps\": [1, 0]}]}", "element 0"},
        {"{\"ids\": [1], \"edits\": [{\"layer\": 2, \"target\": \"k\", \"taps\": [1, 0]}]}",
         "element 0"},
        {"{\"ids\": [1], \"edits\": [{\"head\": 4, \"target\": \"k\", \"taps\": [1, 0]}]}",
         "element 0"},
        {"[1]", "request"},
        {"{", "request"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        refuse("/lens/run", cases[i].body, cases[i].message);
    assert_null(kvsi_lens_route_of("/lens/other"));
}

static int is_gone(void *user)
{
    return --*(int *)user < 0;
}

/* A run ends between two slices when nobody waits for it. */
static void test_cancelled(void **state)
{
    int looks = 0;
    kvsi_lens_answer out = {0};
    const kvsi_lens_call call = {.options = &options, .is_gone = is_gone, .user = &looks};
    kvs_err err = {0};

    (void)state;
    assert_int_equal(kvsi_lens_reply(&out, kvsi_lens_route_of("/lens/run"), &call,
                                     "{\"ids\": [1, 2]}", strlen("{\"ids\": [1, 2]}"), &err),
                     KVS_E_STOPPED);
    assert_null(out.body.data);
}

/* ---- attention ------------------------------------------------------------------------------- */

static double score_of(const json_t *head, const char *side, const char *name)
{
    return json_number_value(json_object_get(json_object_get(head, side), name));
}

/* On a repeated sequence the scores are those of 'kvshift analyze' for one sequence. */
static void test_scores(void **state)
{
    json_t *repeated = ask("/lens/repeated", "{\"length\": 20, \"seed\": 5}"), *found;
    const json_t *list = json_object_get(repeated, "ids"), *heads;
    kvs_head_reading expected[2 * HEADS];
    kvs_lens_options how;
    int32_t ids[40];
    kvsi_text body = {0};

    (void)state;
    kvs_lens_options_init(&how);
    how.length = 20;
    how.seed = 5;
    how.sequences = 1;
    assert_int_equal(kvs_lens_read(expected, model, &how, NULL), KVS_OK);
    assert_int_equal(json_array_size(list), 40);
    for (size_t i = 0; i < 40; i++)
        ids[i] = (int32_t)json_integer_value(at(list, i));
    found = ask("/lens/scores", with_ids(&body, ids, 40, ""));
    heads = json_object_get(found, "heads");
    assert_int_equal(json_integer_value(json_object_get(found, "repeated")), 20);
    assert_int_equal(json_array_size(heads), 2 * HEADS);
    for (size_t i = 0; i < 2 * HEADS; i++) {
        const kvs_head_reading *e = expected + i;
        const json_t *h = at(heads, i);

        assert_int_equal(json_integer_value(json_object_get(h, "kv_head")), e->kv_head);
        assert_true(fabs(score_of(h, "by_place", "induction") - e->places.induction) < 1e-12);
        assert_true(fabs(score_of(h, "by_place", "duplicate") - e->places.duplicate) < 1e-12);
        assert_true(fabs(score_of(h, "by_place", "previous") - e->places.previous) < 1e-12);
        assert_true(fabs(score_of(h, "by_content", "induction") - e->contents.induction) < 1e-12);
        assert_true(fabs(score_of(h, "by_content", "previous") - e->contents.previous) < 1e-12);
    }
    json_decref(found);
    json_decref(repeated);
    kvsi_text_release(&body);
}

/* Without a token that occurs twice there is no induction score, and one token has no previous. */
static void test_missing_scores(void **state)
{
    json_t *found = ask("/lens/scores", "{\"ids\": [1]}");
    const json_t *place = json_object_get(at(json_object_get(found, "heads"), 0), "by_place");

    (void)state;
    assert_true(json_is_null(json_object_get(place, "induction")));
    assert_true(json_is_null(json_object_get(place, "previous")));
    json_decref(found);
}

typedef struct expectation {
    size_t layer, head;
    const float *values;
    int seen;
} expectation;

static void compare_square(void *user, const kvs_pattern *p)
{
    expectation *e = user;
    const size_t size = p->tokens * p->tokens;

    if (p->layer != e->layer || p->head != e->head)
        return;
    assert_memory_equal(e->values, p->places, size * sizeof *p->places);
    assert_memory_equal(e->values + size, p->contents, size * sizeof *p->contents);
    e->seen = 1;
}

static void test_attention(void **state)
{
    expectation e = {.layer = 1, .head = 2};
    kvsi_lens_answer out;
    int32_t ids[30];
    kvsi_text body = {0};
    float squares[2 * 30 * 30];

    (void)state;
    support_fill_ids(ids, 30, 2, VOCAB);
    assert_int_equal(
        reply(&out, "/lens/attention", with_ids(&body, ids, 30, ",\"layer\":1,\"head\":2"), NULL),
        KVS_OK);
    assert_int_equal(out.body.length, sizeof squares);
    memcpy(squares, out.body.data, sizeof squares);
    e.values = squares;
    assert_int_equal(kvs_patterns(model, ids, 30, compare_square, &e, NULL), KVS_OK);
    assert_true(e.seen);
    kvsi_text_release(&out.body);
    kvsi_text_release(&body);
    refuse("/lens/attention", "{\"ids\": [1], \"layer\": 2}", "at most 1");
    refuse("/lens/attention", "{\"ids\": [1], \"head\": 4}", "at most 3");
}

/* ---- runs ------------------------------------------------------------------------------------ */

static void test_runs(void **state)
{
    char *dir = kvsi_path_join(support_dir, "run"), *log = kvsi_path_join(dir, "train.jsonl");
    char *other = kvsi_path_join(support_dir, "other");
    json_t *found;

    (void)state;
    make_dir(dir);
    make_dir(other);
    assert_int_equal(kvsi_file_write_text(log, "{\"step\":1}\n{\"step\":2}\n{\"st", NULL), KVS_OK);
    found = ask("/lens/runs", "");
    assert_int_equal(json_array_size(json_object_get(found, "runs")), 1);
    json_decref(found);
    found =
        ask("/lens/log", "{\"run\": \"run\", \"offset\": 11}"); /* without the unfinished line */
    assert_string_equal(json_string_value(json_object_get(found, "text")), "{\"step\":2}\n");
    assert_int_equal(json_integer_value(json_object_get(found, "next")), 22);
    assert_int_equal(json_integer_value(json_object_get(found, "size")), 26);
    json_decref(found);
    found = ask("/lens/log", "{\"run\": \"run\", \"offset\": 99}");
    assert_string_equal(json_string_value(json_object_get(found, "text")), "");
    json_decref(found);
    found = ask("/lens/log", "{\"run\": \"run\", \"file\": \"samples\"}"); /* there are none */
    assert_int_equal(json_integer_value(json_object_get(found, "size")), 0);
    json_decref(found);
    refuse("/lens/log", "{\"run\": \"other\"}", "does not exist");
    refuse("/lens/log", "{\"run\": \"../run\"}", "does not exist");
    refuse("/lens/log", "{\"run\": \"run/\"}", "does not exist");
    refuse("/lens/log", "{\"run\": \".\"}", "does not exist");
    refuse("/lens/log", "{\"run\": \"run\", \"file\": \"train.jsonl\"}", "expected log or samples");
    refuse("/lens/log", "{\"run\": \"run\", \"offset\": -1}", "offset");
    assert_int_equal(kvsi_dir_remove(dir, NULL), KVS_OK);
    assert_int_equal(kvsi_dir_remove(other, NULL), KVS_OK);
    kvsi_free(other);
    kvsi_free(log);
    kvsi_free(dir);
    options.runs = NULL;
    refuse("/lens/runs", "", "'--runs'");
    options.runs = support_dir;
}

/* ---- files of the page ----------------------------------------------------------------------- */

/* The policy forbids code within the page, and nothing comes from other servers. */
static void test_files(void **state)
{
    const kvsi_page_file *page = kvsi_page_file_at("/");
    kvsi_text text = {0};

    (void)state;
    assert_non_null(page);
    kvsi_text_add_bytes(&text, (const char *)page->bytes, page->size);
    assert_non_null(strstr(text.data, "<script type=\"module\" src=\"/page/main.js\"></script>"));
    assert_null(strstr(text.data, "://"));
    kvsi_text_release(&text);
    assert_non_null(kvsi_page_file_at("/page/main.js"));
    assert_non_null(kvsi_page_file_at("/page/style.css"));
    assert_null(kvsi_page_file_at("/page/"));
    assert_null(kvsi_page_file_at("/page/../lens.c"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_model),        cmocka_unit_test(test_checkpoints),
        cmocka_unit_test(test_tokens),       cmocka_unit_test(test_run),
        cmocka_unit_test(test_refused_runs), cmocka_unit_test(test_cancelled),
        cmocka_unit_test(test_scores),       cmocka_unit_test(test_missing_scores),
        cmocka_unit_test(test_attention),    cmocka_unit_test(test_runs),
        cmocka_unit_test(test_files),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
