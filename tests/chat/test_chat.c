/* Chat templates: stored conversations with the output of jinja2 (make_chats.py), refusals with
 * line and name, limits, the named templates, and the files that templates are in. */
#include "base/files.h"
#include "base/json.h"
#include "base/memory.h"
#include "chat/chat.h"
#include "support.h"

#include <string.h>

enum { NOW = 1700000000 };

static kvs_err err;

/* ---- stored conversations ---- */

/* What Jinja accepts and we refuse, at start or while rendering, instead of guessing. */
static const char *const refused[] = {
    "1e3",                   /* a number with an exponent */
    "100000000000000000000", /* beyond 64 bits */
    "x.u | upper",           /* beyond ASCII, where one character may become several */
    "x.items()",             /* a view of a dict as text */
    "float loop",            /* a number with an exponent */
};

static int is_refused(const char *name)
{
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
        if (strcmp(name, refused[i]) == 0)
            return 1;
    return 0;
}

static kvs_status render_case(char **text, size_t *size, const json_t *row)
{
    const json_t *source = json_object_get(row, "template");
    kvs_chat_template *t = NULL;
    kvs_chat_options options;
    char *messages = json_dumps(json_object_get(row, "messages"), JSON_COMPACT),
         *variables = json_dumps(json_object_get(row, "variables"), JSON_COMPACT);
    kvs_status st = kvsi_chat_create(
        &t, json_string_value(source), json_string_length(source),
        json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>"), "case", &err);

    kvs_chat_options_init(&options, sizeof options);
    options.add_generation_prompt = json_is_true(json_object_get(row, "add_generation_prompt"));
    options.variables = variables;
    options.now = NOW;
    *text = NULL;
    if (st == KVS_OK)
        st = kvs_chat_render(text, size, t, messages, strlen(messages), &options, &err);
    kvs_chat_template_free(t);
    free(messages);
    free(variables);
    return st;
}

static void test_stored(void **state)
{
    json_t *rows, *row;
    size_t index, size, failed = 0, refusals = 0;

    (void)state;
    assert_int_equal(
        kvsi_json_read_list(&rows, KVSI_TESTS_DIR "/chat/data/chats.json", 1 << 24, &err), KVS_OK);
    assert_true(json_array_size(rows) > 250);
    json_array_foreach(rows, index, row) {
        const char *name = json_string_value(json_object_get(row, "name")),
                   *expected = json_string_value(json_object_get(row, "output"));
        char *text;
        const kvs_status st = render_case(&text, &size, row);

        refusals += st != KVS_OK && expected;
        if ((st == KVS_OK) != (expected != NULL) && !(st != KVS_OK && is_refused(name))) {
            print_error("%s: %s\n  expected: %s\n  found: %s\n", name, err.message,
                        expected ? expected : json_string_value(json_object_get(row, "error")),
                        text ? text : "failure");
            failed++;
        } else if (st == KVS_OK && (strlen(text) != size || strcmp(text, expected) != 0)) {
            print_error("%s:\n  expected: '%s'\n  found: '%s'\n", name, expected, text);
            failed++;
        }
        kvs_text_free(text);
    }
    json_decref(rows);
    assert_true(refusals <= sizeof refused / sizeof *refused);
    assert_int_equal(failed, 0);
}

/* ---- refusals and limits ---- */

static kvs_status create(kvs_chat_template **out, const char *text)
{
    return kvs_chat_template_create(out, text, strlen(text), &err);
}

static void expect_refused(const char *text, kvs_status status, const char *message)
{
    kvs_chat_template *t;

    assert_int_equal(create(&t, text), status);
    assert_null(t);
    if (!strstr(err.message, message))
        fail_msg("'%s': expected '%s' in '%s'", text, message, err.message);
}

/* What is not known is named with its line when the template is read, also where it would never
 * run. */
static void test_refused(void **state)
{
    (void)state;
    expect_refused("a\nb\n{% include 'x' %}", KVS_E_UNSUPPORTED, "line 3: statement 'include'");
    expect_refused("{% if false %}\n{{ x | tojsn }}{% endif %}", KVS_E_UNSUPPORTED,
                   "line 2: filter 'tojsn'");
    expect_refused("{{ x is somewhat }}", KVS_E_UNSUPPORTED, "test 'somewhat'");
    expect_refused("\n{{ x.format(1) }}", KVS_E_UNSUPPORTED, "line 2: method 'format'");
    expect_refused("{{ x.append(1) }}", KVS_E_UNSUPPORTED, "method 'append'");
    expect_refused("{{ open('/etc/passwd') }}", KVS_E_UNSUPPORTED, "function 'open'");
    expect_refused("{{ x.__class__ }}", KVS_E_UNSUPPORTED, "attribute '__class__'");
    expect_refused("{{ x | map('attr') }}", KVS_E_UNSUPPORTED, "filter 'attr'");
    expect_refused("{{ x | selectattr('a', y) }}", KVS_E_UNSUPPORTED, "selectattr");
    expect_refused("{{ x | join(sep='a') }}", KVS_E_UNSUPPORTED, "argument 'sep'");
    expect_refused("{{ f(*x) }}{% macro f() %}{% endmacro %}", KVS_E_UNSUPPORTED, "argument '*'");
    expect_refused("{% macro f() %}{{ caller() }}{% endmacro %}", KVS_E_UNSUPPORTED, "caller");
    expect_refused("{% set x = y | safe %}", KVS_E_UNSUPPORTED, "'safe'");
    expect_refused("{{ 'a' + x | safe }}", KVS_E_UNSUPPORTED, "'safe'");
    expect_refused("{{ '%s' % x }}", KVS_E_UNSUPPORTED, "operator");
    expect_refused("{{ 2 ** 3 }}", KVS_E_UNSUPPORTED, "'**'");
    expect_refused("{% for x in y recursive %}{% endfor %}", KVS_E_UNSUPPORTED, "recursive");
    expect_refused("{% set x = {\n'a': 1, 2: 3} %}", KVS_E_UNSUPPORTED,
                   "line 2: a dict with a key");
    expect_refused("{{ {-1: 3} }}", KVS_E_UNSUPPORTED, "line 1: a dict with a key");
    expect_refused("{% break %}", KVS_E_FORMAT, "outside of a loop");
    expect_refused("{% for x in y %}{% generation %}{% break %}{% endgeneration %}{% endfor %}",
                   KVS_E_FORMAT, "outside of a loop");
    expect_refused("{% if x %}a", KVS_E_FORMAT, "expected elif, found 'the end of the template'");
    expect_refused("{{ x", KVS_E_FORMAT, "a tag does not end");
    expect_refused("{# x", KVS_E_FORMAT, "a comment does not end");
    expect_refused("{{ 'x }}", KVS_E_FORMAT, "a string does not end");
    expect_refused("{{ (1] }}", KVS_E_FORMAT, "unexpected ']'");
    expect_refused("{{ 1 2 }}", KVS_E_FORMAT, "expected '}}', found '2'");
    expect_refused("a\xff", KVS_E_FORMAT, "UTF-8");
}

/* Repeats `part` between `before` and `after`. */
static char *repeated(const char *before, const char *part, size_t count, const char *after)
{
    kvsi_text text = {0};

    kvsi_text_add(&text, before);
    for (size_t i = 0; i < count; i++)
        kvsi_text_add(&text, part);
    kvsi_text_add(&text, after);
    assert_non_null(text.data);
    return text.data;
}

static void expect_deep(const char *before, const char *part, const char *after)
{
    kvs_chat_template *t;
    char *text = repeated(before, part, 100000, after);
    kvsi_text owner = {.data = text};

    assert_int_not_equal(create(&t, text), KVS_OK);
    assert_null(t);
    kvsi_text_release(&owner);
}

static void expect_limit(const char *source)
{
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"x\"}]";
    kvs_chat_template *t;
    kvs_status st;
    size_t size;
    char *text;

    assert_int_equal(create(&t, source), KVS_OK);
    st = kvs_chat_render(&text, &size, t, messages, strlen(messages), NULL, &err);
    if (st != KVS_E_LIMIT)
        fail_msg("'%s': status %d, '%s'", source, (int)st, err.message);
    assert_null(text);
    kvs_chat_template_free(t);
}

static void test_limits(void **state)
{
    (void)state;
    expect_deep("{{ ", "(", "");
    expect_deep("{{ ", "[", "");
    expect_deep("{{ ", "-", "1 }}");
    expect_deep("{{ ", "not ", "1 }}");
    expect_deep("{{ 1", " + 1", " }}");
    expect_deep("{{ x", ".y", " }}");
    expect_deep("{{ x", " | trim", " }}");
    expect_deep("{{ 1", " if 1", " }}");
    expect_deep("", "{% if x %}", "");
    expect_deep("{% if x %}", "{% elif x %}", "{% endif %}");
    expect_deep("", "{% for x in y %}", "");
    expect_limit("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}");
    expect_limit("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}");
    expect_limit("{% set ns = namespace(s='xxxxxxxx') %}{% for a in range(99) %}"
                 "{% set ns.s = ns.s + ns.s %}{% endfor %}");
    expect_limit("{% for a in range(99999) %}{{ 'xxxxxxxxxx' * 1000 }}{% endfor %}");
    expect_limit("{{ 'x' * 999999999999 }}");
    expect_limit("{{ [0] * 999999999999 }}");
    expect_limit("{{ range(999999999) | length }}");
    expect_limit("{{ 9223372036854775807 + 1 }}");
    expect_limit("{% set ns = namespace(l=[]) %}{% for a in range(999) %}"
                 "{% set ns.l = [ns.l] %}{% endfor %}{{ ns.l }}");
}

/* A message cannot act as part of the template, and messages that are no messages are refused. */
static void test_messages(void **state)
{
    static const char *const bad[] = {"",
                                      "{}",
                                      "[1]",
                                      "[null]",
                                      "[{\"role\": \"user\"]",
                                      "[[]]",
                                      "[{\"role\": \"a\", \"role\": \"b\"}]"};
    kvs_chat_options options;
    kvs_chat_template *t;
    size_t size;
    char *text;

    (void)state;
    assert_int_equal(create(&t, "{{ messages[0].content }}|{{ x }}"), KVS_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_int_equal(kvs_chat_render(&text, &size, t, bad[i], strlen(bad[i]), NULL, &err),
                         KVS_E_FORMAT);
        assert_null(text);
    }
    kvs_chat_options_init(&options, sizeof options);
    options.variables = "{\"messages\": []}";
    assert_int_equal(kvs_chat_render(&text, &size, t, "[]", 2, &options, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "'messages' cannot be set"));
    kvs_chat_template_free(t);
}

/* ---- named templates ---- */

static void expect_named(const char *name, const char *expected, const char *stop)
{
    static const char messages[] = "[{\"role\": \"system\", \"content\": \"S\"}, "
                                   "{\"role\": \"user\", \"content\": \" Q \"}, "
                                   "{\"role\": \"assistant\", \"content\": \"A\"}, "
                                   "{\"role\": \"user\", \"content\": \"R\"}]";
    kvs_chat_options options;
    kvs_chat_template *t = NULL;
    size_t size;
    char *text;

    kvs_chat_options_init(&options, sizeof options);
    options.add_generation_prompt = 1;
    assert_int_equal(
        kvsi_chat_create(&t, kvsi_chat_named(name), strlen(kvsi_chat_named(name)),
                         json_pack("{s:s, s:s}", "bos_token", "<s>", "eos_token", "</s>"), name,
                         &err),
        KVS_OK);
    assert_string_equal(kvs_chat_template_stop(t), stop);
    assert_int_equal(kvs_chat_render(&text, &size, t, messages, strlen(messages), &options, &err),
                     KVS_OK);
    assert_string_equal(text, expected);
    kvs_text_free(text);
    kvs_chat_template_free(t);
}

static void test_named(void **state)
{
    size_t count = 0;

    (void)state;
    while (kvs_chat_template_name(count))
        count++;
    assert_int_equal(count, 8);
    assert_null(kvsi_chat_named("alpaca"));
    expect_named("chatml",
                 "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\n Q <|im_end|>\n"
                 "<|im_start|>assistant\nA<|im_end|>\n<|im_start|>user\nR<|im_end|>\n"
                 "<|im_start|>assistant\n",
                 "<|im_end|>");
    expect_named("llama2", "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\nQ [/INST] A </s><s>[INST] R [/INST]",
                 "</s>");
    expect_named("llama3",
                 "<s><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|>"
                 "<|start_header_id|>user<|end_header_id|>\n\nQ<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\nA<|eot_id|>"
                 "<|start_header_id|>user<|end_header_id|>\n\nR<|eot_id|>"
                 "<|start_header_id|>assistant<|end_header_id|>\n\n",
                 "<|eot_id|>");
    expect_named("mistral", "<s>[INST] S\n\nQ [/INST] A</s>[INST] R [/INST]", "</s>");
    expect_named("zephyr",
                 "<|system|>\nS</s>\n<|user|>\n Q </s>\n<|assistant|>\nA</s>\n<|user|>\nR</s>\n"
                 "<|assistant|>\n",
                 "</s>");
    expect_named("phi3",
                 "<|system|>\nS<|end|>\n<|user|>\n Q <|end|>\n<|assistant|>\nA<|end|>\n<|user|>\n"
                 "R<|end|>\n<|assistant|>\n",
                 "<|end|>");
    expect_named("gemma",
                 "<s><start_of_turn>user\nS\n\nQ<end_of_turn>\n<start_of_turn>model\nA<end_of_turn>"
                 "\n<start_of_turn>user\nR<end_of_turn>\n<start_of_turn>model\n",
                 "<end_of_turn>");
    expect_named("raw", "<s>S\n Q \nA\nR\n", "");
}

/* ---- files ---- */

static void write_file(const char *name, const char *text)
{
    char *path = kvsi_path_join(support_dir, name);

    assert_int_equal(kvsi_file_write_text(path, text, &err), KVS_OK);
    kvsi_free(path);
}

static void expect_rendered(const char *model, const char *source, const char *expected)
{
    static const char messages[] = "[{\"role\": \"user\", \"content\": \"x\"}]";
    kvs_chat_template *t;
    size_t size;
    char *text;

    if (kvs_chat_template_load(&t, model, source, NULL, &err) != KVS_OK)
        fail_msg("%s", err.message);
    assert_int_equal(kvs_chat_render(&text, &size, t, messages, strlen(messages), NULL, &err),
                     KVS_OK);
    assert_string_equal(text, expected);
    kvs_text_free(text);
    kvs_chat_template_free(t);
}

static void expect_no_template(const char *model, const char *source, const char *message)
{
    kvs_chat_template *t;

    assert_int_not_equal(kvs_chat_template_load(&t, model, source, NULL, &err), KVS_OK);
    assert_null(t);
    if (!strstr(err.message, message))
        fail_msg("expected '%s' in '%s'", message, err.message);
}

static void test_folder(void **state)
{
    char *path = kvsi_path_join(support_dir, "mine.txt");

    (void)state;
    expect_no_template(support_dir, NULL, "has no chat template; name one (chatml, llama2");
    write_file("tokenizer_config.json", "{\"bos_token\": {\"content\": \"<B>\"}}");
    expect_no_template(support_dir, NULL, "has no chat template");
    write_file("special_tokens_map.json", "{\"bos_token\": \"<C>\", \"eos_token\": \"<E>\"}");
    expect_rendered(support_dir, "mistral", "<B>[INST] x [/INST]");
    write_file("tokenizer_config.json",
               "{\"bos_token\": \"<B>\", \"model_max_length\": 1" /* 10^30 */
               "000000000000000000000000000000, \"chat_template\": "
               "\"{{ bos_token }}{{ messages[0].content }}{{ eos_token "
               "}}\"}");
    expect_rendered(support_dir, NULL, "<B>x<E>");
    write_file("tokenizer_config.json",
               "{\"chat_template\": [{\"name\": \"tool_use\", \"template\": \"t\"}, {\"name\": "
               "\"default\", \"template\": \"d{{ bos_token }}\"}]}");
    expect_rendered(support_dir, NULL, "d<C>");
    write_file("tokenizer_config.json", "{\"chat_template\": [{\"name\": \"tool_use\"}]}");
    expect_no_template(support_dir, NULL, "one named 'default'");
    write_file("chat_template.jinja", "j");
    expect_rendered(support_dir, NULL, "j");
    write_file("chat_template.jinja", "\n{{ x | y }}");
    expect_no_template(support_dir, NULL, "chat_template.jinja': line 2: filter 'y'");
    write_file("mine.txt", "m{{ eos_token }}");
    expect_rendered(support_dir, path, "m<E>");
    expect_rendered(NULL, path, "m");
    expect_no_template(support_dir, "chatlm", "'chatlm' is no file and no name of a chat template");
    kvsi_free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stored),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_named),
        cmocka_unit_test_setup_teardown(test_folder, support_dir_setup, support_dir_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
