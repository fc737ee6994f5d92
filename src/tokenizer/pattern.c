#include "tokenizer/pattern.h"

#include "base/memory.h"
#include "base/text.h"

#include <limits.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* Two compiled forms of one expression bound the time per text.  `fast` matches within a short
 * window of the text, with a small limit of steps per starting position, so its cost is linear in
 * the text.  A match that it cannot decide goes to `counted`, which calls count_step() before every
 * item of the expression and fails when the text's budget is spent.  Common expressions rarely need
 * it.  The budget counts steps, not seconds, so the outcome is reproducible. */
struct kvsi_pattern {
    pcre2_code *fast; /* NULL: always use `counted` */
    pcre2_code *counted;
    char *text;      /* the expression as compiled */
    uint64_t weight; /* steps charged per item and per character that the match moves */
};

struct kvsi_matcher {
    pcre2_match_data *match;
    pcre2_match_context *fast_context, *counted_context;
    pcre2_jit_stack *stack; /* NULL: PCRE2 has no JIT compiler */
    /* state of the current match of the form `counted` */
    const kvsi_pattern *pattern;
    uint64_t left;
    size_t position;
};

enum {
    FAST_WINDOW = 1024, /* bytes */
    FAST_STEPS = 256,   /* PCRE2's match limit */
    FAST_WEIGHT = 64,
    STEPS_PER_BYTE = 4000,
    BYTES_ALWAYS = 64, /* added to the length of a text, so that very short texts have a budget */
    HEAP_LIMIT = 256 << 10, /* KiB, for PCRE2's interpreter */
    FAST_UNDECIDED = INT_MIN,
    COMPILE_NO_MEMORY = PCRE2_ERROR_HEAP_FAILED,
};

/* ---- from Oniguruma to PCRE2 ----------------------------------------------------------------- */

static const char word_class[] = "\\p{Alphabetic}\\p{M}\\p{N}\\p{Pc}";

/* Translates the escape \letter. */
static kvs_status translate_escape(kvsi_text *out, char letter, int in_class, kvs_err *err)
{
    switch (letter) {
    case 'K': /* the match could start before the search position, or after its own end */
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'\\K' is not supported");
    case 'c': /* \c takes any character, also a backslash that starts the next escape */
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "'\\c' is not supported");
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
            TRY(translate_escape(out, *++p, in_class, err));
            continue;
        }
        if (in_class && ((*p == '[' && p[1] != ':') || (*p == '&' && p[1] == '&')))
            return kvsi_fail(err, KVS_E_UNSUPPORTED, "a class inside a class is not supported");
        kvsi_text_add_bytes(out, p, 1);
        if (in_class && *p == '[') { /* copy [:name:] */
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

/* ---- the cost of an expression --------------------------------------------------------------- */

/* The largest number in braces: a{1000} may read 1000 characters before it fails. */
static uint64_t largest_repeat(const char *text)
{
    uint64_t largest = 0, number = 0;
    int in_braces = 0;

    for (; *text; text++) {
        if (*text >= '0' && *text <= '9' && number < UINT16_MAX)
            number = 10 * number + (uint64_t)(*text - '0');
        else
            number = 0;
        in_braces = *text == '{' || (in_braces && *text != '}');
        if (in_braces && number > largest)
            largest = number;
    }
    return largest;
}

/* An upper bound of the work between two calls of count_step(), apart from the characters that the
 * match moves over. */
static uint64_t step_weight(const pcre2_code *code, const char *text, size_t size)
{
    uint32_t captures = 0, lookbehind = 0;

    pcre2_pattern_info(code, PCRE2_INFO_CAPTURECOUNT, &captures);
    pcre2_pattern_info(code, PCRE2_INFO_MAXLOOKBEHIND, &lookbehind);
    return 1 + captures + lookbehind + largest_repeat(text) + size / 256;
}

/* The fast form continues after a window without a match.  The meaning of \G and of verbs such as
 * (*COMMIT) depends on where the search began, so they cannot use it. */
static int depends_on_search(const char *text)
{
    return strstr(text, "\\G") || strstr(text, "(*");
}

/* A backreference that fails has compared up to the length of a capture. */
static uint64_t longest_capture(const pcre2_callout_block *at)
{
    size_t longest = 0;

    for (uint32_t i = 1; i < at->capture_top; i++) {
        const PCRE2_SIZE from = at->offset_vector[2 * i], to = at->offset_vector[2 * i + 1];

        if (from != PCRE2_UNSET && to != PCRE2_UNSET && to > from && to - from > longest)
            longest = to - from;
    }
    return longest;
}

static int is_backreference(const char *item)
{
    return (item[0] == '\\' && (strchr("kg", item[1]) || (item[1] >= '1' && item[1] <= '9'))) ||
           strncmp(item, "(?P=", 4) == 0;
}

/* PCRE2 calls this before every item of the expression. */
static int count_step(pcre2_callout_block *at, void *user)
{
    kvsi_matcher *m = user;
    const size_t now = at->current_position;
    const size_t moved = now > m->position ? now - m->position : m->position - now;
    uint64_t cost = m->pattern->weight * (1 + moved);

    if (is_backreference(m->pattern->text + at->pattern_position))
        cost += longest_capture(at);
    m->position = now;
    if (cost > m->left) {
        m->left = 0;
        return PCRE2_ERROR_CALLOUT;
    }
    m->left -= cost;
    return 0;
}

/* ---- compiling ------------------------------------------------------------------------------- */

/* The length of an expression in messages. */
static int shown_length(size_t size)
{
    return (int)(size < 100 ? size : 100);
}

/* Compiles both forms to machine code.  Without PCRE2's JIT compiler matching works, but slower. */
static void compile_jit(kvsi_pattern *p)
{
    if (p->fast && pcre2_jit_compile(p->fast, PCRE2_JIT_COMPLETE | PCRE2_JIT_PARTIAL_HARD) != 0)
        return;
    pcre2_jit_compile(p->counted, PCRE2_JIT_COMPLETE);
}

static kvs_status compile(pcre2_code **out, const char *text, size_t size, uint32_t options,
                          kvs_err *err)
{
    PCRE2_UCHAR why[120] = "";
    PCRE2_SIZE at = 0;
    int code = 0;

    *out = pcre2_compile((PCRE2_SPTR)text, size, PCRE2_UTF | options, &code, &at, NULL);
    if (*out)
        return KVS_OK;
    if (code == COMPILE_NO_MEMORY)
        return kvsi_no_memory(err, "an expression");
    pcre2_get_error_message(code, why, sizeof why);
    return kvsi_fail(err, KVS_E_FORMAT, "expression '%.*s' is malformed at %zu: %s",
                     shown_length(size), text, (size_t)at, (const char *)why);
}

static kvs_status create(kvsi_pattern **out, const char *text, size_t size, uint32_t options,
                         kvs_err *err)
{
    const int literal = (options & PCRE2_LITERAL) != 0;
    kvsi_pattern *p = kvsi_alloc(1, sizeof *p);
    kvs_status st;

    *out = NULL;
    if (!p)
        return kvsi_no_memory(err, "an expression");
    p->text = kvsi_alloc(size + 1, 1);
    if (!p->text) {
        st = kvsi_no_memory(err, "an expression");
        goto out;
    }
    memcpy(p->text, text, size);
    TRY_OUT(compile(&p->counted, text, size, options | PCRE2_AUTO_CALLOUT, err));
    p->weight = literal ? 1 : step_weight(p->counted, p->text, size);
    if (p->weight <= FAST_WEIGHT && (literal || !depends_on_search(p->text)))
        TRY_OUT(compile(&p->fast, text, size, options, err));
    compile_jit(p);
    *out = p;
    p = NULL;
out:
    kvsi_pattern_free(p);
    return st;
}

kvs_status kvsi_pattern_create(kvsi_pattern **out, const char *expression, kvs_err *err)
{
    const size_t size = strlen(expression);
    kvsi_text text = {0};
    kvs_err why = {0};
    kvs_status st;

    *out = NULL;
    kvsi_text_add(&text, "");
    st = translate(&text, expression, &why);
    if (st != KVS_OK) {
        kvsi_fail(err, st, "expression '%.*s': %s", shown_length(size), expression, why.message);
        goto out;
    }
    /* \C would match part of a character, and the next match must start at a whole one. */
    TRY_OUT(create(out, text.data, text.length,
                   PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C, err));
out:
    kvsi_text_release(&text);
    return st;
}

kvs_status kvsi_pattern_create_literal(kvsi_pattern **out, const char *text, size_t size,
                                       kvs_err *err)
{
    return create(out, text, size, PCRE2_LITERAL, err);
}

void kvsi_pattern_free(kvsi_pattern *p)
{
    if (!p)
        return;
    pcre2_code_free(p->fast);
    pcre2_code_free(p->counted);
    kvsi_free(p->text);
    kvsi_free(p);
}

/* ---- matchers -------------------------------------------------------------------------------- */

static kvs_status prepare(kvsi_matcher *m, kvs_err *err)
{
    enum { STACK_START = 64 << 10, STACK_MAX = 8 << 20 };
    uint32_t has_jit = 0;

    m->match = pcre2_match_data_create(1, NULL);
    m->fast_context = pcre2_match_context_create(NULL);
    m->counted_context = pcre2_match_context_create(NULL);
    if (!m->match || !m->fast_context || !m->counted_context)
        return kvsi_no_memory(err, "matching expressions");
    pcre2_set_match_limit(m->fast_context, FAST_STEPS);
    pcre2_set_heap_limit(m->fast_context, HEAP_LIMIT);
    pcre2_set_heap_limit(m->counted_context, HEAP_LIMIT);
    pcre2_set_callout(m->counted_context, count_step, m);
    pcre2_config(PCRE2_CONFIG_JIT, &has_jit);
    if (!has_jit)
        return KVS_OK;
    m->stack = pcre2_jit_stack_create(STACK_START, STACK_MAX, NULL);
    if (!m->stack)
        return kvsi_no_memory(err, "matching expressions");
    pcre2_jit_stack_assign(m->fast_context, NULL, m->stack);
    pcre2_jit_stack_assign(m->counted_context, NULL, m->stack);
    return KVS_OK;
}

kvs_status kvsi_matcher_create(kvsi_matcher **out, kvs_err *err)
{
    kvsi_matcher *m = kvsi_alloc(1, sizeof *m);
    kvs_status st;

    *out = NULL;
    if (!m)
        return kvsi_no_memory(err, "matching expressions");
    TRY_OUT(prepare(m, err));
    *out = m;
    m = NULL;
out:
    kvsi_matcher_free(m);
    return st;
}

void kvsi_matcher_free(kvsi_matcher *m)
{
    if (!m)
        return;
    pcre2_jit_stack_free(m->stack);
    pcre2_match_context_free(m->fast_context);
    pcre2_match_context_free(m->counted_context);
    pcre2_match_data_free(m->match);
    kvsi_free(m);
}

/* ---- matching -------------------------------------------------------------------------------- */

kvsi_search kvsi_search_begin(const kvsi_pattern *pattern, kvsi_matcher *matcher, const char *text,
                              size_t size)
{
    const uint64_t bytes = size < UINT32_MAX ? size + BYTES_ALWAYS : UINT32_MAX;

    return (kvsi_search){pattern, matcher, text, size, STEPS_PER_BYTE * bytes};
}

/* The start of the character at `at`. */
static size_t character_start(const kvsi_search *s, size_t at)
{
    while (at < s->size && at > 0 && (s->text[at] & 0xc0) == 0x80)
        at--;
    return at;
}

/* Searches the text window by window and advances *from.  Returns FAST_UNDECIDED where the answer
 * could depend on text after the window, or takes too many steps. */
static int match_fast(const kvsi_search *s, size_t *from)
{
    const kvsi_matcher *m = s->matcher;

    while (s->pattern->fast) {
        const size_t end =
            s->size - *from > FAST_WINDOW ? character_start(s, *from + FAST_WINDOW) : s->size;
        const uint32_t partial = end < s->size ? PCRE2_PARTIAL_HARD : 0;
        const int code =
            pcre2_match(s->pattern->fast, (PCRE2_SPTR)s->text, end, *from,
                        PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY | partial, m->match, m->fast_context);

        if (code >= 0 || (code == PCRE2_ERROR_NOMATCH && !partial))
            return code;
        if (code != PCRE2_ERROR_NOMATCH)
            break;
        *from = end;
    }
    return FAST_UNDECIDED;
}

static int match_counted(kvsi_search *s, size_t from)
{
    kvsi_matcher *m = s->matcher;
    int code;

    m->pattern = s->pattern;
    m->left = s->left;
    m->position = from;
    code = pcre2_match(s->pattern->counted, (PCRE2_SPTR)s->text, s->size, from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NOTEMPTY, m->match, m->counted_context);
    s->left = m->left;
    return code;
}

static kvs_status fail_match(const kvsi_pattern *p, int code, kvs_err *err)
{
    PCRE2_UCHAR why[120] = "";

    if (code == PCRE2_ERROR_NOMEMORY)
        return kvsi_no_memory(err, "an expression");
    if (code == PCRE2_ERROR_CALLOUT)
        return kvsi_fail(err, KVS_E_LIMIT,
                         "expression '%.*s' takes more than %d steps per byte of the text",
                         shown_length(strlen(p->text)), p->text, (int)STEPS_PER_BYTE);
    pcre2_get_error_message(code, why, sizeof why);
    return kvsi_fail(err, KVS_E_LIMIT, "an expression of the tokenizer failed: %s",
                     (const char *)why);
}

kvs_status kvsi_search_next(kvsi_search *s, size_t from, size_t *start, size_t *end, kvs_err *err)
{
    const PCRE2_SIZE *found = pcre2_get_ovector_pointer(s->matcher->match);
    size_t at = from;
    int code;

    *start = *end = 0;
    code = match_fast(s, &at);
    if (code == FAST_UNDECIDED)
        code = match_counted(s, at);
    if (code == PCRE2_ERROR_NOMATCH)
        return KVS_OK;
    if (code < 0)
        return fail_match(s->pattern, code, err);
    /* Guaranteed to callers.  No accepted expression is known to violate it. */
    if (found[0] < from || found[1] <= found[0] || found[1] > s->size ||
        character_start(s, found[0]) != found[0] || character_start(s, found[1]) != found[1])
        return kvsi_fail(err, KVS_E_FORMAT,
                         "expression '%.*s' matches bytes %zu to %zu of %zu in a search from %zu",
                         shown_length(strlen(s->pattern->text)), s->pattern->text, (size_t)found[0],
                         (size_t)found[1], s->size, from);
    *start = found[0];
    *end = found[1];
    return KVS_OK;
}
