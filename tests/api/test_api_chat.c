/* Chat templates. */
#include "api.h"

#include <kvshift/kvshift_files.h>

static const char messages[] = "[{\"role\": \"user\", \"content\": \"x\"}]";

static kvs_chat_template *make(const char *text)
{
    kvs_chat_template *t;

    expect_ok(kvs_chat_template_create(&t, text, strlen(text), &err));
    return t;
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(kvs_chat_template_name(0), "chatml");
    expect_null(kvs_chat_template_name(1000));
}

static void test_load(void **state)
{
    const char *path = api_write("mine.jinja", "{{ messages[0].content }}!{{ bos_token }}");
    kvs_tokenizer *tokenizer;
    kvs_chat_template *t;

    (void)state;
    expect_needed(out, kvs_chat_template_load(NULL, api_dir, NULL, NULL, &err));
    expect_no_handle(t, KVS_E_INVALID, "model is NULL",
                     kvs_chat_template_load(&t, NULL, NULL, NULL, &err));
    expect_no_handle(t, KVS_E_INVALID, "no chat template",
                     kvs_chat_template_load(&t, api_dir, NULL, NULL, &err));
    expect_no_handle(t, KVS_E_INVALID, "no file and no name",
                     kvs_chat_template_load(&t, NULL, "no-such", NULL, &err));
    expect_ok(kvs_chat_template_load(&t, NULL, "chatml", NULL, &err));
    assert_string_equal(kvs_chat_template_stop(t), "<|im_end|>");
    kvs_chat_template_free(t);
    expect_ok(kvs_tokenizer_load(&tokenizer, "bytes", &err));
    expect_ok(kvs_chat_template_load(&t, api_dir, path, tokenizer, &err));
    kvs_chat_template_free(t);
    kvs_tokenizer_free(tokenizer);
}

static void test_create(void **state)
{
    kvs_chat_template *t;

    (void)state;
    expect_needed(out, kvs_chat_template_create(NULL, "a", 1, &err));
    expect_no_handle(t, KVS_E_INVALID, "text is NULL", kvs_chat_template_create(&t, NULL, 1, &err));
    expect_no_handle(t, KVS_E_UNSUPPORTED, "line 1: filter 'nothing'",
                     kvs_chat_template_create(&t, "{{ a | nothing }}", 17, &err));
    expect_ok(kvs_chat_template_create(&t, "abc", 2, &err));
    kvs_chat_template_free(t);
    expect_nothing(kvs_chat_template_free(NULL));
}

static void test_stop(void **state)
{
    kvs_chat_template *t = make("{% for m in messages %}{{ m.content }}<e> {% endfor %}"),
                      *failing = make("{{ raise_exception('never') }}");

    (void)state;
    expect_null(kvs_chat_template_stop(NULL));
    assert_string_equal(kvs_chat_template_stop(t), "<e>");
    assert_string_equal(kvs_chat_template_stop(failing), "");
    kvs_chat_template_free(t);
    kvs_chat_template_free(failing);
}

static void test_text(void **state)
{
    kvs_chat_template *t = make("{{ messages }}");

    (void)state;
    assert_string_equal(kvs_chat_template_text(t), "{{ messages }}");
    expect_null(kvs_chat_template_text(NULL));
    kvs_chat_template_free(t);
}

static void test_render(void **state)
{
    kvs_chat_template *t = make("{{ messages[0].content }}{{ v }}{{ 'g' if "
                                "add_generation_prompt }}{{ strftime_now('%Y') }}");
    size_t size = 0;
    char *text;

    (void)state;
    expect_init(kvs_chat_options);
    expect_needed(text, kvs_chat_render(NULL, &size, t, messages, 1, NULL, &err));
    expect_no_handle(text, KVS_E_INVALID, "size is NULL",
                     kvs_chat_render(&text, NULL, t, messages, 1, NULL, &err));
    expect_no_handle(text, KVS_E_INVALID, "chat_template is NULL",
                     kvs_chat_render(&text, &size, NULL, messages, 1, NULL, &err));
    expect_no_handle(text, KVS_E_INVALID, "messages is NULL",
                     kvs_chat_render(&text, &size, t, NULL, 1, NULL, &err));
    expect_no_handle(text, KVS_E_FORMAT, "messages",
                     kvs_chat_render(&text, &size, t, "{}", 2, NULL, &err));
    expect_sizes(kvs_chat_options, offsetof(kvs_chat_options, now),
                 (p->add_generation_prompt = 1, p->variables = "{\"v\": 7}"),
                 kvs_chat_render(&text, &size, t, messages, strlen(messages), o, &err),
                 (assert_memory_equal(text, "x7g2", 4), assert_int_equal(strlen(text), size),
                  kvs_text_free(text)));
    kvs_chat_template_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names), cmocka_unit_test(test_load),   cmocka_unit_test(test_create),
        cmocka_unit_test(test_stop),  cmocka_unit_test(test_render), cmocka_unit_test(test_text),
    };

    return cmocka_run_group_tests(tests, api_setup, api_teardown);
}
