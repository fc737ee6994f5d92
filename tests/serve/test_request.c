/* The table of request fields: every field with every JSON type, limits, combinations. */
#include "base/memory.h"
#include "serve/request.h"
#include "support.h"

#include <string.h>

static const kvsi_request_limits limits = {.vocab = 300, .samples = 8, .tokens = 65};

/* Parses and returns the refusal; status 0 = accepted.  The request is released. */
static kvsi_refusal refusal_of(unsigned endpoint, const char *text)
{
    kvsi_refusal refusal;
    kvsi_request r;
    const kvs_status st = kvsi_request_parse(&r, endpoint, text, strlen(text), &limits, &refusal);

    assert_int_equal(st == KVS_OK, refusal.status == 0);
    kvsi_request_release(&r);
    return refusal;
}

static void accept(kvsi_request *r, unsigned endpoint, const char *text)
{
    kvsi_refusal refusal;

    if (kvsi_request_parse(r, endpoint, text, strlen(text), &limits, &refusal) != KVS_OK)
        fail_msg("%s: %s", text, refusal.message);
}

static void refuse(unsigned endpoint, const char *text, const char *param, const char *message)
{
    const kvsi_refusal refusal = refusal_of(endpoint, text);

    if (refusal.status != 400 || !strstr(refusal.message, message) ||
        (param ? !refusal.param || strcmp(refusal.param, param) != 0 : refusal.param != NULL))
        fail_msg("%s: status %u, param %s, '%s'", text, refusal.status,
                 refusal.param ? refusal.param : "null", refusal.message);
}

/* ---- every field with every type ---- */

enum { T_NULL, T_TRUE, T_WHOLE, T_REAL, T_TEXT, T_IDS, T_TEXTS, T_OBJECT, TYPES };

static const char *const values[TYPES] = {"null",   "true",           "1",           "0.5", "\"x\"",
                                          "[1, 2]", "[\"a\", \"b\"]", "{\"3\": 1.5}"};

/* The types that each field takes. */
static const struct {
    const char *name;
    unsigned types;
} takes[] = {
    {"model", 1 << T_TEXT},
    {"prompt", 1 << T_TEXT | 1 << T_IDS | 1 << T_TEXTS},
    {"content", 1 << T_TEXT},
    {"tokens", 1 << T_IDS},
    {"messages", 0},
    {"max_tokens", 1 << T_WHOLE},
    {"max_completion_tokens", 1 << T_WHOLE},
    {"min_tokens", 1 << T_WHOLE},
    {"n", 1 << T_WHOLE},
    {"best_of", 1 << T_WHOLE},
    {"temperature", 1 << T_WHOLE | 1 << T_REAL},
    {"top_p", 1 << T_WHOLE | 1 << T_REAL},
    {"top_k", 1 << T_WHOLE},
    {"min_p", 1 << T_WHOLE | 1 << T_REAL},
    {"repetition_penalty", 1 << T_WHOLE | 1 << T_REAL},
    {"frequency_penalty", 1 << T_WHOLE | 1 << T_REAL},
    {"presence_penalty", 1 << T_WHOLE | 1 << T_REAL},
    {"logit_bias", 1 << T_OBJECT},
    {"seed", 1 << T_WHOLE},
    {"stop", 1 << T_TEXT | 1 << T_TEXTS},
    {"stop_token_ids", 1 << T_IDS},
    {"ignore_eos", 1 << T_TRUE},
    {"logprobs", 0}, /* below: it depends on the endpoint */
    {"top_logprobs", 0},
    {"echo", 1 << T_TRUE},
    {"stream", 1 << T_TRUE},
    {"stream_options", 0}, /* an object, with `stream` */
    {"add_special_tokens", 1 << T_TRUE},
    {"add_generation_prompt", 1 << T_TRUE},
    {"continue_final_message", 1 << T_TRUE},
    {"return_token_ids", 1 << T_TRUE},
    {"cache_salt", 1 << T_TEXT},
    {"suffix", 0},
    {"tools", 0},
    {"tool_choice", 0},
    {"functions", 0},
    {"function_call", 0},
    {"response_format", 0},
    {"modalities", 0},
    {"audio", 0},
    {"prediction", 0},
    {"web_search_options", 0},
    {"grammar", 0},
    {"json_schema", 0},
    {"guided_json", 0},
    {"guided_regex", 0},
    {"guided_choice", 0},
    {"guided_grammar", 0},
    {"structured_outputs", 0},
    {"allowed_token_ids", 0},
    {"bad_words", 0},
    {"prompt_logprobs", 0},
    {"use_beam_search", 0},
    {"length_penalty", 1 << T_WHOLE},
    {"repeat_penalty", 1 << T_WHOLE},
    {"typical_p", 1 << T_WHOLE},
    {"mirostat", 0},
    {"dry_multiplier", 0},
    {"xtc_probability", 0},
    {"n_predict", 0},
};

static unsigned types_of(const char *name, unsigned endpoint)
{
    if (strcmp(name, "logprobs") == 0)
        return endpoint == KVSI_CHAT ? 1 << T_TRUE : 1 << T_WHOLE;
    if (strcmp(name, "prompt") == 0 && endpoint == KVSI_TOKENIZE)
        return 1 << T_TEXT;
    for (size_t i = 0; i < sizeof takes / sizeof *takes; i++)
        if (strcmp(takes[i].name, name) == 0)
            return takes[i].types;
    fail_msg("the test does not know the field '%s'", name);
    return 0;
}

/* What the request needs besides the field. */
static const char *others(const char *name, unsigned endpoint)
{
    const char *needed = endpoint == KVSI_CHAT          ? "messages"
                         : endpoint == KVSI_DETOKENIZE  ? "tokens"
                         : strcmp(name, "content") == 0 ? "content"
                                                        : "prompt";

    if (strcmp(name, needed) == 0)
        return "";
    return endpoint == KVSI_CHAT ? ", \"messages\": [{\"role\": \"user\", \"content\": \"x\"}]"
           : endpoint == KVSI_DETOKENIZE ? ", \"tokens\": [1]"
                                         : ", \"prompt\": \"x\"";
}

static void test_types(void **state)
{
    unsigned endpoints;
    const char *name;

    (void)state;
    for (size_t i = 0; (name = kvsi_request_field(i, &endpoints)) != NULL; i++)
        for (unsigned bit = 1; bit <= KVSI_DETOKENIZE; bit *= 2)
            for (unsigned type = 0; (endpoints & bit) && type < TYPES; type++) {
                const int takes_it = types_of(name, bit) >> type & 1;
                char text[256];
                kvsi_refusal refusal;

                snprintf(text, sizeof text, "{\"%s\": %s%s}", name, values[type],
                         others(name, bit));
                refusal = refusal_of(bit, text);
                if (type == T_NULL) {
                    /* as if it were not given */
                    if ((refusal.status == 0) != (*others(name, bit) != '\0') &&
                        strcmp(name, "content") != 0)
                        fail_msg("%s: status %u: %s", text, refusal.status, refusal.message);
                } else if ((refusal.status == 0) != takes_it) {
                    fail_msg("%s: status %u: %s", text, refusal.status, refusal.message);
                } else if (!takes_it && (refusal.status != 400 || !refusal.param ||
                                         (strcmp(refusal.param, name) != 0))) {
                    fail_msg("%s: status %u, param '%s'", text, refusal.status,
                             refusal.param ? refusal.param : "null");
                }
            }
}

/* ---- limits of numbers ---- */

static void test_limits(void **state)
{
    static const struct {
        const char *name, *low, *high, *below, *above;
    } fields[] = {
        {"max_tokens", "1", "65", "-1", "66"},
        {"min_tokens", "0", "16", "-1", "66"},
        {"n", "1", "8", "0", "9"},
        {"temperature", "0", "2", "-0.001", "2.001"},
        {"top_p", "0.001", "1", "0", "1.001"},
        {"top_k", "-1", "300", "-2", "301"},
        {"min_p", "0", "1", "-0.1", "1.1"},
        {"repetition_penalty", "0.001", "1000", "0", "1001"},
        {"frequency_penalty", "-2", "2", "-2.1", "2.1"},
        {"presence_penalty", "-2", "2", "-2.1", "2.1"},
        {"logprobs", "0", "20", "-1", "21"},
        {"seed", "-9223372036854775808", "9223372036854775807", NULL, NULL},
        {"stop_token_ids", "[0]", "[299]", "[-1]", "[300]"},
        {"prompt", "[0]", "[299]", "[-1]", "[300]"},
    };
    static const char *const extremes[] = {"9223372036854775807", "-9223372036854775808", "1e308",
                                           "-1e308"};
    char text[128];

    (void)state;
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *const good[] = {fields[i].low, fields[i].high};
        const char *const bad[] = {fields[i].below, fields[i].above};
        const char *rest = strcmp(fields[i].name, "prompt") == 0 ? "" : ", \"prompt\": \"x\"";

        for (size_t j = 0; j < 2; j++) {
            snprintf(text, sizeof text, "{\"%s\": %s%s}", fields[i].name, good[j], rest);
            if (refusal_of(KVSI_COMPLETIONS, text).status != 0)
                fail_msg("%s: %s", text, refusal_of(KVSI_COMPLETIONS, text).message);
            if (!bad[j])
                continue;
            snprintf(text, sizeof text, "{\"%s\": %s%s}", fields[i].name, bad[j], rest);
            refuse(KVSI_COMPLETIONS, text, fields[i].name, "expected");
        }
        for (size_t j = 0; fields[i].below && j < 4; j++) {
            snprintf(text, sizeof text, "{\"%s\": %s%s}", fields[i].name, extremes[j], rest);
            assert_int_equal(refusal_of(KVSI_COMPLETIONS, text).status, 400);
        }
    }
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"temperature\": NaN}", NULL, "malformed");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"n\": 99999999999999999999}", NULL, "");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"temperature\": 1e999}", NULL, "");
}

/* ---- values ---- */

static void test_defaults(void **state)
{
    kvsi_request r;

    (void)state;
    accept(&r, KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"seed\": null, \"logprobs\": null}");
    assert_true(r.temperature == 1 && r.top_p == 1 && r.min_p == 0 && r.top_k == 0);
    assert_true(r.n == 1 && r.max_tokens == SIZE_MAX && r.repetition_penalty == 1);
    assert_false(r.has_seed || r.logprobs || r.echo || r.stream);
    assert_true(r.add_special);
    kvsi_request_release(&r);
    accept(&r, KVSI_CHAT, "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}]}");
    assert_true(r.max_tokens == SIZE_MAX && r.add_generation_prompt && !r.add_special);
    kvsi_request_release(&r);
}

static void test_prompts(void **state)
{
    kvsi_request r;

    (void)state;
    accept(&r, KVSI_COMPLETIONS, "{\"prompt\": [[1, 2], [3]]}");
    assert_int_equal(r.prompt_count, 2);
    assert_int_equal(r.prompts[0].count, 2);
    assert_int_equal(r.prompts[1].ids[0], 3);
    kvsi_request_release(&r);
    accept(&r, KVSI_COMPLETIONS, "{\"prompt\": [\"a\", \"bc\"]}");
    assert_int_equal(r.prompt_count, 2);
    assert_string_equal(r.prompts[1].text, "bc");
    kvsi_request_release(&r);
    accept(&r, KVSI_COMPLETIONS, "{\"prompt\": [7, 8]}");
    assert_int_equal(r.prompt_count, 1);
    assert_int_equal(r.prompts[0].count, 2);
    kvsi_request_release(&r);
    refuse(KVSI_COMPLETIONS, "{\"prompt\": []}", "prompt", "0 prompts");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"\"}", "prompt", "empty");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": [\"a\", \"\"]}", "prompt", "empty");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": [[]]}", "prompt", "0 tokens");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": [\"a\", [1]]}", "prompt", "element 1");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": [1, \"a\"]}", "prompt", "element 1");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": [1.5]}", "prompt", "expected");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": [[1, 2.5]]}", "prompt", "element 1");
    refuse(KVSI_COMPLETIONS, "{}", "prompt", "missing");
    refuse(KVSI_CHAT, "{}", "messages", "missing");
    refuse(KVSI_DETOKENIZE, "{}", "tokens", "missing");
}

static void test_stops_and_biases(void **state)
{
    kvsi_request r;

    (void)state;
    accept(&r, KVSI_COMPLETIONS,
           "{\"prompt\": \"x\", \"stop\": [\"a\", \"b\"], \"logit_bias\": {\"299\": -100}}");
    assert_int_equal(r.stop_count, 2);
    assert_string_equal(r.stops[1], "b");
    assert_int_equal(r.bias_count, 1);
    assert_int_equal(r.biases[0].id, 299);
    assert_true(r.biases[0].bias == -100);
    kvsi_request_release(&r);
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"stop\": [\"a\", \"b\", \"c\", \"d\", \"e\"]}",
           "stop", "5 texts");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"stop\": \"\"}", "stop", "0 bytes");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"stop\": [1]}", "stop", "a whole number");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"logit_bias\": {\"300\": 1}}", "logit_bias",
           "'300'");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"logit_bias\": {\"-1\": 1}}", "logit_bias",
           "'-1'");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"logit_bias\": {\"1\": 101}}", "logit_bias",
           "token 1");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"logit_bias\": {\"1\": \"a\"}}", "logit_bias",
           "token 1");
}

#define CHAT(message) "{\"messages\": [" message "]}"

static void test_messages(void **state)
{
    kvsi_request r;

    (void)state;
    accept(&r, KVSI_CHAT,
           CHAT("{\"role\": \"developer\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}, "
                "{\"type\": \"text\", \"text\": \"b\"}], \"tool_calls\": null}"));
    assert_string_equal(
        json_string_value(json_object_get(json_array_get(r.messages, 0), "content")), "a\nb");
    assert_string_equal(json_string_value(json_object_get(json_array_get(r.messages, 0), "role")),
                        "system");
    kvsi_request_release(&r);
    refuse(KVSI_CHAT, "{\"messages\": []}", "messages", "0 messages");
    refuse(KVSI_CHAT, CHAT("1"), "messages", "message 0");
    refuse(KVSI_CHAT, CHAT("{\"role\": \"user\"}"), "messages", "'content'");
    refuse(KVSI_CHAT, CHAT("{\"content\": \"x\"}"), "messages", "'role'");
    refuse(KVSI_CHAT, CHAT("{\"role\": \"boss\", \"content\": \"x\"}"), "messages", "'role'");
    refuse(KVSI_CHAT, CHAT("{\"role\": \"user\", \"content\": [{\"type\": \"image_url\"}]}"),
           "messages", "'content'");
    refuse(KVSI_CHAT, CHAT("{\"role\": \"user\", \"content\": \"x\", \"tool_calls\": [1]}"),
           "messages", "'tool_calls'");
}

static void test_combinations(void **state)
{
    (void)state;
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"max_tokens\": 0}", "max_tokens", "echo");
    assert_int_equal(
        refusal_of(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"max_tokens\": 0, \"echo\": true}")
            .status,
        0);
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"n\": 2, \"best_of\": 3}", "best_of", "'n'");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"stream_options\": {}}", "stream_options",
           "'stream'");
    refuse(KVSI_COMPLETIONS,
           "{\"prompt\": \"x\", \"stream\": true, \"stream_options\": {\"include_usage\": 1}}",
           "stream_options", "flag");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"min_tokens\": 9, \"max_tokens\": 8}",
           "min_tokens", "8");
    refuse(KVSI_CHAT,
           "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"top_logprobs\": 2}",
           "top_logprobs", "'logprobs'");
    refuse(KVSI_CHAT,
           "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], "
           "\"add_generation_prompt\": true, \"continue_final_message\": true}",
           "continue_final_message", "exclude");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"suffix\": \"y\"}", "suffix", "not supported");
    refuse(KVSI_CHAT,
           "{\"messages\": [{\"role\": \"user\", \"content\": \"x\"}], \"response_format\": "
           "{\"type\": \"json_object\"}}",
           "response_format", "not supported");
}

static void test_ignored(void **state)
{
    kvsi_request r;

    (void)state;
    accept(&r, KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"user\": \"me\", \"audio\": [1]}");
    assert_string_equal(r.ignored.data, "user,audio"); /* audio is a field of chats */
    kvsi_request_release(&r);
    /* Values that change nothing are accepted, others are refused by name. */
    accept(&r, KVSI_COMPLETIONS,
           "{\"prompt\": \"x\", \"mirostat\": 0, \"typical_p\": 1.0, \"grammar\": \"\"}");
    assert_int_equal(r.ignored.length, 0);
    kvsi_request_release(&r);
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"typical_p\": 0.5}", "typical_p",
           "not supported");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"tools\": [1]}", "tools", "not supported");
}

/* ---- the JSON itself ---- */

static void test_bodies(void **state)
{
    enum { DEEP = 100000 };
    char *deep = kvsi_alloc(DEEP + 32, 1);

    (void)state;
    refuse(KVSI_COMPLETIONS, "", NULL, "malformed");
    refuse(KVSI_COMPLETIONS, "[]", NULL, "expected a JSON object");
    refuse(KVSI_COMPLETIONS, "1", NULL, "");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"x\", \"prompt\": \"y\"}", NULL, "malformed");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"\\u0000\"}", NULL, "malformed");
    refuse(KVSI_COMPLETIONS, "{\"prompt\": \"\xff\"}", NULL, "malformed");
    memcpy(deep, "{\"a\":", 5);
    memset(deep + 5, '[', DEEP);
    refuse(KVSI_COMPLETIONS, deep, NULL, "nested");
    memset(deep + 5, ',', DEEP);
    deep[5] = '[';
    refuse(KVSI_COMPLETIONS, deep, NULL, "malformed");
    kvsi_free(deep);
    /* Brackets inside text are no nesting. */
    assert_int_equal(
        refusal_of(KVSI_COMPLETIONS, "{\"prompt\": \"[[[[[[[[[[[[[[[[[[[[\\\"[[\"}").status, 0);
}

static void test_too_many_values(void **state)
{
    const size_t count = KVSI_PROMPT_TOKENS + 5000;
    char *text = kvsi_alloc(2 * count + 32, 1);
    size_t at = 0;

    (void)state;
    at += (size_t)snprintf(text, 32, "{\"prompt\":[1");
    for (size_t i = 0; i < count; i++, at += 2)
        memcpy(text + at, ",1", 2);
    memcpy(text + at, "]}", 2);
    refuse(KVSI_COMPLETIONS, text, NULL, "values");
    kvsi_free(text);
}

static void test_description(void **state)
{
    kvsi_text out = {0};
    json_t *list;
    size_t count = 0;
    unsigned endpoints;

    (void)state;
    while (kvsi_request_field(count, &endpoints))
        count++;
    kvsi_request_describe(&out, &limits);
    assert_int_equal(kvsi_json_parse_list(&list, out.data, out.length, "fields", NULL), KVS_OK);
    assert_int_equal(json_array_size(list), count);
    json_decref(list);
    kvsi_text_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_prompts),
        cmocka_unit_test(test_stops_and_biases),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_combinations),
        cmocka_unit_test(test_ignored),
        cmocka_unit_test(test_bodies),
        cmocka_unit_test(test_too_many_values),
        cmocka_unit_test(test_description),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
