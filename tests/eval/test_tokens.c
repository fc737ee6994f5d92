/* The ids of requests: the boundary between context and continuation, BOS, truncation. */
#include "base/files.h"
#include "base/memory.h"
#include "eval/tokens.h"
#include "support.h"

#include <string.h>

/* Characters a, b, _ (a space), the pieces ab and _a, and BOS before each text. */
static const char file[] =
    "{\"version\": \"1.0\", \"added_tokens\": [{\"id\": 0, \"content\": \"<s>\", \"special\": "
    "true, \"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false}, "
    "{\"id\": 7, \"content\": \"a a a\", \"special\": true, \"single_word\": false, \"lstrip\": "
    "false, \"rstrip\": false, \"normalized\": true}],"
    "\"normalizer\": {\"type\": \"Replace\", \"pattern\": {\"String\": \" \"}, \"content\": "
    "\"_\"}, \"pre_tokenizer\": null, \"post_processor\": {\"type\": \"TemplateProcessing\", "
    "\"single\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, {\"Sequence\": {\"id\": "
    "\"A\", \"type_id\": 0}}], \"pair\": [{\"SpecialToken\": {\"id\": \"<s>\", \"type_id\": 0}}, "
    "{\"Sequence\": {\"id\": \"A\", \"type_id\": 0}}], \"special_tokens\": {\"<s>\": {\"id\": "
    "\"<s>\", \"ids\": [0], \"tokens\": [\"<s>\"]}}}, \"decoder\": {\"type\": \"Replace\", "
    "\"pattern\": {\"String\": \"_\"}, \"content\": \" \"}, \"model\": {\"type\": \"BPE\", "
    "\"vocab\": {\"<s>\": 0, \"a\": 1, \"b\": 2, \"_\": 3, \"ab\": 4, \"_a\": 5, \"a_a_a\": 6}, "
    "\"merges\": [\"a b\", \"_ a\"]}}";

static kvs_tokenizer *tokenizer;

static int set_up(void **state)
{
    char *path;
    kvs_err err;

    support_dir_setup(state);
    path = kvsi_path_join(support_dir, "tokenizer.json");
    if (kvsi_file_write_text(path, file, &err) != KVS_OK ||
        kvs_tokenizer_load(&tokenizer, path, &err) != KVS_OK)
        fail_msg("%s", err.message);
    kvsi_free(path);
    return 0;
}

static int tear_down(void **state)
{
    kvs_tokenizer_free(tokenizer);
    return support_dir_teardown(state);
}

typedef struct expectation {
    const char *context, *continuation;
    kvs_eval_bos bos;
    size_t max_length;
    size_t context_count, count;
    int32_t ids[8];
    int truncated;
} expectation;

static kvs_status encode(kvsi_eval_ids *out, const expectation *e, kvs_err *err)
{
    const kvsi_eval_request request = {e->context, e->continuation};
    const kvsi_eval_document document = {
        .id = 3, .requests = &request, .count = 1, .file = "arc/x.jsonl", .line = 17};
    const kvsi_eval_encoding how = {tokenizer, e->bos, e->max_length};

    *out = (kvsi_eval_ids){0};
    return kvsi_eval_encode(out, &how, &document, err);
}

static void ids_are_split_and_cut(void **state)
{
    static const expectation cases[] = {
        {"b", " a", KVS_EVAL_BOS_TOKENIZER, 9, 2, 3, {0, 2, 5}, 0},
        {"b", " a", KVS_EVAL_BOS_ALWAYS, 9, 2, 3, {0, 2, 5}, 0},
        {"b", " a", KVS_EVAL_BOS_NEVER, 9, 1, 2, {2, 5}, 0},
        /* white space moves to the continuation */
        {"b ", "a", KVS_EVAL_BOS_TOKENIZER, 9, 2, 3, {0, 2, 5}, 0},
        /* a piece crosses the boundary: the ids are not those of the joined text, 0 4 3 2 */
        {"a", "b b", KVS_EVAL_BOS_TOKENIZER, 9, 2, 4, {0, 1, 3, 2}, 0},
        /* a text with BOS of its own gets no second one */
        {"<s>b", " a", KVS_EVAL_BOS_TOKENIZER, 9, 2, 3, {0, 2, 5}, 0},
        /* an empty context is BOS, also without BOS, and not twice */
        {"", "b", KVS_EVAL_BOS_NEVER, 9, 1, 2, {0, 2}, 0},
        {"", "<s>b", KVS_EVAL_BOS_TOKENIZER, 9, 1, 2, {0, 2}, 0},
        /* the last L + 1 ids are kept */
        {"bbb", " a", KVS_EVAL_BOS_TOKENIZER, 4, 4, 5, {0, 2, 2, 2, 5}, 0},
        {"bbb", " a", KVS_EVAL_BOS_TOKENIZER, 3, 3, 4, {2, 2, 2, 5}, 1},
        {"bbb", " b", KVS_EVAL_BOS_TOKENIZER, 2, 1, 3, {2, 3, 2}, 1},
        /* a prompt leaves room for 256 new ids */
        {"bbb", NULL, KVS_EVAL_BOS_TOKENIZER, 260, 4, 4, {0, 2, 2, 2}, 0},
        {"bba", NULL, KVS_EVAL_BOS_TOKENIZER, 258, 2, 2, {2, 1}, 1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const expectation *e = &cases[i];
        kvsi_eval_ids ids;
        kvs_err err;

        if (encode(&ids, e, &err) != KVS_OK)
            fail_msg("case %zu: %s", i, err.message);
        if (ids.count != e->count || memcmp(ids.ids, e->ids, e->count * sizeof *e->ids) != 0 ||
            ids.context_count != e->context_count || ids.truncated != e->truncated)
            fail_msg("case %zu: %zu ids, %zu of the context, the first %d, truncated %d", i,
                     ids.count, ids.context_count, (int)ids.ids[0], ids.truncated);
        kvsi_eval_ids_release(&ids);
    }
}

static void what_cannot_be_scored_is_named(void **state)
{
    static const struct {
        expectation e;
        const char *message;
    } cases[] = {
        {{"a", "b", KVS_EVAL_BOS_TOKENIZER, 9, 0, 0, {0}, 0}, "no token of its own"},
        {{"", "", KVS_EVAL_BOS_TOKENIZER, 9, 0, 0, {0}, 0}, "the continuation has no token"},
        {{" ", "b", KVS_EVAL_BOS_NEVER, 9, 0, 0, {0}, 0}, "the context has no token"},
        {{"b", "bbb", KVS_EVAL_BOS_TOKENIZER, 2, 0, 0, {0}, 0}, "the continuation has 3 tokens"},
        {{"b", NULL, KVS_EVAL_BOS_TOKENIZER, 256, 0, 0, {0}, 0}, "expected more than the 256"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        kvsi_eval_ids ids;
        kvs_err err;

        assert_int_not_equal(encode(&ids, &cases[i].e, &err), KVS_OK);
        if (!strstr(err.message, "'arc/x.jsonl', line 17: document 3: ") ||
            !strstr(err.message, cases[i].message))
            fail_msg("case %zu: %s", i, err.message);
        kvsi_eval_ids_release(&ids);
    }
}

static void new_ids_are_decoded_alone(void **state)
{
    /* BOS and an unknown id have no text.  The other special token is known by its normalized text,
     * a_a_a, and so it is shown. */
    const int32_t ids[] = {5, 0, 4, 99, 7};
    char *text;
    kvs_err err;

    (void)state;
    assert_int_equal(kvsi_eval_decode(&text, tokenizer, ids, 5, &err), KVS_OK);
    assert_string_equal(text, " aaba a a");
    kvsi_free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_are_split_and_cut),
        cmocka_unit_test(what_cannot_be_scored_is_named),
        cmocka_unit_test(new_ids_are_decoded_alone),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
