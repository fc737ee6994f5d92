/* A chat template, then "==== messages" and messages as JSON. */
#include "fuzz.h"
#include "kvshift/kvshift_files.h"

#include <string.h>

enum { TEXT_MAX = 20 << 20 }; /* more than the limit of any output */

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    static const char mark[] = "\n==== messages\n",
                      usual[] = "[{\"role\": \"user\", \"content\": \"a b\"}, {\"role\": "
                                "\"assistant\", \"content\": \"<think>c</think>d\"}]";
    const char *messages = NULL;
    kvs_chat_options options;
    kvs_chat_template *t = NULL;
    kvs_status st;

    for (size_t i = 0; !messages && i + strlen(mark) <= size; i++)
        if (memcmp(data + i, mark, strlen(mark)) == 0)
            messages = data + i + strlen(mark);
    const size_t source = messages ? (size_t)(messages - data) - strlen(mark) : size,
                 length = messages ? (size_t)(data + size - messages) : strlen(usual);

    kvs_chat_options_init(&options, sizeof options);
    options.now = 1700000000;
    st = kvs_chat_template_create(&t, data, source, err);
    for (int generate = 0; generate < 2 && st == KVS_OK; generate++) {
        char *text = NULL;
        size_t text_size = 0;

        options.add_generation_prompt = generate;
        options.variables = generate ? "{\"bos_token\": \"<s>\", \"tools\": [{\"a\": {\"b\": [1, "
                                       "2.5, null]}}]}"
                                     : NULL;
        st = kvs_chat_render(&text, &text_size, t, messages ? messages : usual, length, &options,
                             err);
        if (st == KVS_OK)
            fuzz_expect(text && text_size < TEXT_MAX && text[text_size] == '\0', "a text");
        kvs_text_free(text);
    }
    kvs_chat_template_free(t);
    return st;
}

void fuzz_seeds(void)
{
    fuzz_seed_text("roles",
                   "{%- set ns = namespace(a=1, b='x') -%}\n{{ bos_token }}{% for m in messages %}"
                   "{% if loop.first and m.role == 'user' %}\n  {{- '[I] ' + m['content'].strip() "
                   "~ ' [/I]' }}{% elif m.role in ['a', 'assistant'] %}{{ m.content[1:] | trim }}"
                   "{% else %}{% continue %}{% endif %}{% set ns.a = ns.a + loop.index0 %}"
                   "{% endfor %}{{ ns.a }}");
    fuzz_seed_text("lists",
                   "{% macro f(x, y=2) %}{{ x }}{{ y }}{% endmacro %}{{ f(1, y=[1, 'a', {'k': "
                   "none}]) }}{{ messages | tojson(indent=2) }}{{ messages | map(attribute='role') "
                   "| join(', ') }}{{ messages[::-1] | length }}{{ messages | selectattr('role', "
                   "'equalto', 'user') | list | first }}{% set a %} x {% endset %}{{ a | upper }}"
                   "{{ range(5, 0, -2) | list | sort | string }}{{ 'a b'.split(' ', 1) }}");
    fuzz_seed_text(
        "thinking",
        "{% generation %}{% for m in messages if m.content is string %}{% set c = "
        "m.content.split('</think>')[-1].lstrip('\\n') %}{{ c | replace('a', '') | "
        "indent(2, true) }}{{ '' if loop.last else ', ' }}{% endfor %}"
        "{% endgeneration %}{{ strftime_now('%d %b %Y') }}{# end #}"
        "\n==== messages\n[{\"role\": \"user\", \"content\": \"\xc3\xa9\", \"reasoning\": "
        "\"r\"}]");
    fuzz_seed_text("numbers",
                   "{{ -7 // 2 }}{{ 7 % -3 }}{{ 1.5 * 2 }}{{ 10 / 4 }}{{ '3.5' | int }}{{ 1 < 2 "
                   "<= 2 }}{{ not 1 == 2 and 3 or 4 }}{{ (1,) }}{{ {'b': 1, 'a': 2} | dictsort }}"
                   "{{ 2 is divisibleby 2 }}{{ x | default('d') }}{{ 'a' * 3 }}");
}
