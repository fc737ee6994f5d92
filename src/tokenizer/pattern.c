#include "tokenizer/pattern.h"

#include "base/memory.h"
#include "base/text.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

struct kvsi_pattern {
    pcre2_code *code;
    pcre2_match_data *match;
    pcre2_match_context *context;
    pcre2_jit_stack *stack;
};

/* ---- from Oniguruma to PCRE2 ----------------------------------------------------------------- */

static const char word_class[] = "\\p{Alphabetic}\\p{M}\\p{N}\\p{Pc}";

/* One escape, \X, into `out`. */
static kvs_status translate_escape(kvsi_text *out, char letter, int in_class, kvs_err *err)
{
    switch (letter) {
    case 's':
        kvsi_text_add(out, "\\p{White_Space}");
        return KVS_OK;
    case 'S':
        kvsi_text_add(out, "\\P{White_Space}");
        return KVS_OK;
    case 'w':
        kvsi_text_format(out, in_class ? "%s" : "[%s]", word_class);
        return KVS_OK;
    case 'W':
        if (in_class)
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "'\\W' inside a class is not supported");
        kvsi_text_format(out, "[^%s]", word_class);
        return KVS_OK;
    case 'h':
        kvsi_text_add(out, in_class ? "0-9a-fA-F" : "[0-9a-fA-F]");
        return KVS_OK;
    default:
        kvsi_text_format(out, "\\%c", letter);
        return KVS_OK;
    }
}

static kvs_status translate(kvsi_text *out, const char *expression, kvs_err *err)
{
    int in_class = 0;

    for (const char *p = expression; *p; p++) {
        if (*p == '\\' && p[1] && (unsigned char)p[1] < 0x80) {
            const kvs_status st = translate_escape(out, *++p, in_class, err);

            if (st != KVS_OK)
                return st;
            continue;
        }
        if (in_class && ((*p == '[' && p[1] != ':') || (*p == '&' && p[1] == '&')))
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "a class inside a class is not supported");
        kvsi_text_add_bytes(out, p, 1);
        if (in_class && *p == '[') { /* [:name:] as it stands */
            const size_t name = strcspn(p, "]");

            kvsi_text_add_bytes(out, p + 1, p[name] ? name : name - 1);
            p += p[name] ? name : name - 1;
        } else if (*p == '[') {
            in_class = 1;
            while (p[1] == '^' || (p[1] == ']' && (*p == '[' || *p == '^')))
                kvsi_text_add_bytes(out, ++p, 1);
        } else if (*p == ']') {
            in_class = 0;
        }
    }
    return kvsi_text_check(out, err);
}

/* ---- making ---------------------------------------------------------------------------------- */

static kvs_status fail_memory(kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "cannot allocate memory for an expression");
}

/* Room for matching; without a just-in-time compiler the same, slower. */
static kvs_status prepare(kvsi_pattern *p, kvs_err *err)
{
    enum { STACK_START = 64 << 10, STACK_MAX = 8 << 20 };

    p->match = pcre2_match_data_create(1, NULL);
    p->context = pcre2_match_context_create(NULL);
    if (!p->match || !p->context)
        return fail_memory(err);
    if (pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE) != 0)
        return KVS_OK;
    p->stack = pcre2_jit_stack_create(STACK_START, STACK_MAX, NULL);
    if (!p->stack)
        return fail_memory(err);
    pcre2_jit_stack_assign(p->context, NULL, p->stack);
    return KVS_OK;
}

static kvs_status compile(kvsi_pattern **out, const char *text, size_t size, uint32_t options,
                          kvs_err *err)
{
    kvsi_pattern *p = kvsi_alloc(1, sizeof *p);
    kvs_status st;
    PCRE2_SIZE at = 0;
    int code = 0;

    *out = NULL;
    if (!p)
        return fail_memory(err);
    p->code = pcre2_compile((PCRE2_SPTR)text, size, PCRE2_UTF | options, &code, &at, NULL);
    if (!p->code) {
        PCRE2_UCHAR why[120] = "";

        pcre2_get_error_message(code, why, sizeof why);
        st = kvsi_fail(err, KVS_E_FORMAT, "expression '%.*s' is malformed at %zu: %s",
                       (int)(size < 100 ? size : 100), text, (size_t)at, (const char *)why);
        goto out;
    }
    KVS_TRY(prepare(p, err));
    *out = p;
    p = NULL;
out:
    kvsi_pattern_free(p);
    return st;
}

kvs_status kvsi_pattern_create(kvsi_pattern **out, const char *expression, kvs_err *err)
{
    kvsi_text text = {0};
    kvs_status st;

    *out = NULL;
    kvsi_text_add(&text, "");
    KVS_TRY(translate(&text, expression, err));
    /* \C would match part of a character, and the next match must start at a whole one. */
    KVS_TRY(compile(out, text.data, text.length,
                    PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, err));
out:
    kvsi_text_release(&text);
    return st;
}

kvs_status kvsi_pattern_create_literal(kvsi_pattern **out, const char *text, size_t size,
                                       kvs_err *err)
{
    return compile(out, text, size, PCRE2_LITERAL, err);
}

void kvsi_pattern_free(kvsi_pattern *p)
{
    if (!p)
        return;
    pcre2_jit_stack_free(p->stack);
    pcre2_match_context_free(p->context);
    pcre2_match_data_free(p->match);
    pcre2_code_free(p->code);
    kvsi_free(p);
}

/* ---- matching -------------------------------------------------------------------------------- */

kvs_status kvsi_pattern_next(const kvsi_pattern *p, const char *text, size_t size, size_t from,
                             size_t *start, size_t *end, kvs_err *err)
{
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(p->match);
    const int code = pcre2_match(p->code, (PCRE2_SPTR)text, size, from,
                                 PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, p->match, p->context);

    *end = 0;
    if (code == PCRE2_ERROR_NOMATCH)
        return KVS_OK;
    if (code < 0) {
        PCRE2_UCHAR why[120] = "";

        pcre2_get_error_message(code, why, sizeof why);
        return kvsi_fail(err, KVS_E_LIMIT, "an expression of the tokenizer gave up: %s",
                         (const char *)why);
    }
    *start = found[0];
    *end = found[1];
    return KVS_OK;
}
