/* Expressions of tokenizer files: splitting and replacing must use the matches that PCRE2 finds in
 * the whole text; otherwise the expression is refused with a message that names it.  No expression
 * may take time out of proportion to the text. */
#include "base/memory.h"
#include "base/text.h"
#include "base/utf8.h"
#include "model_files.h"
#include "tokenizer/characters.h"
#include "tokenizer/pattern.h"
#include "tokenizer/tokenizer.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

/* ---- expressions without escapes that PCRE2 interprets differently --------------------------- */

static const char *const expressions[] = {
    /* plain */
    "a",
    "ab|a",
    "[a-c]+",
    "[^a]+",
    ".",
    ".+",
    ".*?b",
    "a{2,3}",
    "a{2}b?",
    "a++b",
    "a*+",
    "(?:ab)+",
    "(?:ab)*+c",
    "(?i:AB)+",
    "(?i)XÉ",
    "\\p{L}+| ?[^ \\p{L}]+",
    "\\p{N}{1,3}",
    "\\p{Lu}\\p{Ll}*",
    "\\X",
    "\\R",
    "^.",
    ".$",
    "a$|^b",
    "\\Aa+",
    "a+\\z",
    "b?\\Z",
    "\\b.",
    "\\B.",
    "(?s:.{5})",
    "(?x: a b # note\n)",
    "a+?",
    "(?:a|b)+?c",
    "é+|日",
    "[é日]+x?",
    "[[:alpha:]]+",
    "\\Qa.b\\E|a",
    "\\x{e9}",
    "\\t|\\n|\\r",
    /* lookahead */
    "a(?=b)",
    "a(?!b)",
    "(?=ab)a",
    "(?!ab).",
    "(?=(a+))a",
    "(?=.*b)a+",
    "(?=a(?=b))..",
    "(?!a(?!b)).+",
    "[ ]+(?![^ ])|[ ]+",
    "a+(?=a)",
    "(?=a+$)a",
    "x(?=\\z)",
    "(?=(a+)b)\\1",
    /* lookbehind */
    "(?<=a)b",
    "(?<!a)b",
    "(?<=aa|b)a",
    "(?<=^)a",
    "(?<=é)x",
    "(?<!é)x",
    "(?<=(?<=a)b)c",
    "(?<=a(?=b)).",
    "(?<=a{3})a",
    "(?<=\\b)a+",
    "(?<=[ab]{2}).",
    "(?<=日)本|é",
    "(?<!^).",
    /* groups that are atomic, reset, named */
    "(?>a+)b",
    "(?>a|ab)c",
    "(?>[ab]*)c",
    "(?|(a)b|(b)c)\\1?",
    "(?<n>a)\\k<n>",
    "(?'n'a+)b\\k'n'",
    "(?P<n>b)(?P=n)?",
    /* backreferences */
    "(a+)b\\1",
    "(a)(b)?\\2?",
    "(.)\\1+",
    "(.)(.)\\2\\1",
    "(?i)(a+)\\1",
    "(a*)b\\1c",
    "(é)\\1*",
    "(\\p{L})\\g{-1}",
    "(a+)\\g1",
    /* subroutines and recursion */
    "(a)(?1)",
    "(a|b(?1)c)",
    "(?<x>ab)(?&x)",
    "(?(DEFINE)(?<x>[ab]+))(?&x)c",
    "(?(DEFINE)(?<x>a))(?=(?&x)).",
    "(?(DEFINE)(?<x>a))(?<=(?&x)).",
    "a(?R)?b",
    "\\((?:[^()]|(?R))*\\)",
    "(a(?1)?b)c?",
    "(?P<x>a)(?P>x)+",
    "(?:(?=(a+))\\1b)+",
    "(?1)x|(y)",
    /* conditionals */
    "(a)?(?(1)b|c)",
    "(?(?=a)ab|.)",
    "(?(?!a).|a+)",
    "(?(?<=a)b|c)",
    "(?<q>a)?b(?(<q>)c|a)",
    "(?(R)a|b)",
    /* where a search starts, verbs, callouts */
    "\\Ga",
    "\\G.b?",
    "a(*SKIP)b|.",
    "a(*COMMIT)b",
    "(*FAIL)|a",
    "a(*ACCEPT)b",
    "(?:a(*THEN)b|a)c",
    "a(*PRUNE)b|.",
    "(?C1)a+(?C2)b?",
    "(*NO_JIT)a+b|[^a]",
    "(*CRLF)^a|b$",
    "(*UCP)\\p{L}{2}",
    /* empty matches */
    "",
    "a*",
    "(?=a)",
    "b*?|a",
    "(?<=a)",
    "(a?)*?b?",
    "()|a",
};

enum { EXPRESSIONS = sizeof expressions / sizeof *expressions };

static const char *const refused[] = {
    "\\K",
    "a\\Kb",
    "\\Ka",
    "(?=\\Ka)",
    "(?<=\\Ka)",
    "(?(DEFINE)(?<x>\\Ka))(?<=(?&x))",
    "(?(DEFINE)(?<x>aaa\\K))(?=(?&x))a",
    "(?(DEFINE)(?<x>aa\\K))(?!(?&x)b)a",
    "((?=(?2))a)|(b\\K)",
    "(?:a|\\K)+",
    "(?>a\\K)b",
    "(?(?=a)\\Ka|b)",
    "(a)\\K(?1)",
    "[\\K]",
    "\\\\\\Ka",
    "\\Q\\\\E\\Ka",
    "(?#\\)\\Ka",
    "(?x)#\\\n\\Ka",
    "\\c\\\\Ka",
    "(?<=(?R)\\K)a",
};

enum { REFUSED = sizeof refused / sizeof *refused };

/* Short texts, and some longer than the matching window. */
static kvsi_text texts[12];
enum { TEXTS = sizeof texts / sizeof *texts };

static void repeat(kvsi_text *text, const char *words, int times)
{
    for (int i = 0; i < times; i++)
        kvsi_text_add(text, words);
}

static int make_texts(void **state)
{
    kvsi_text *t = texts;

    (void)state;
    kvsi_text_add(t++, "a");
    kvsi_text_add(t++, "aaaa abc");
    kvsi_text_add(t++, "abaabaaabc aabb\nbca((a)b)(\r\nxyzzy\n");
    kvsi_text_add(t++, "éxa日本語éé XÉxé É\xcc\x81 a\xcc\x81");
    kvsi_text_add(t++, "\n\n a\r\n\r\n  b \t ");
    kvsi_text_add(t++, "AbC 123456 aaB 7, x.");
    repeat(t++, "a", 1024);
    repeat(t++, "ab c", 600);
    repeat(t++, "日本é", 400);
    repeat(t, "-", 1023);
    kvsi_text_add(t, "éab-");
    repeat(t, " ", 1100);
    kvsi_text_add(t++, "aabca\n");
    repeat(t, "xy-\n", 300);
    repeat(t++, "aab(c)", 200);
    repeat(t, "a", 1500);
    kvsi_text_add(t++, "b");
    assert_ptr_equal(t, texts + TEXTS);
    return 0;
}

static int release_texts(void **state)
{
    (void)state;
    for (size_t i = 0; i < TEXTS; i++)
        kvsi_text_release(texts + i);
    return 0;
}

/* ---- matches, by PCRE2 alone ----------------------------------------------------------------- */

typedef struct oracle {
    pcre2_code *code;
    pcre2_match_data *match;
} oracle;

static oracle oracle_create(const char *expression)
{
    oracle o;
    int code;
    PCRE2_SIZE at;

    o.code = pcre2_compile((PCRE2_SPTR)expression, PCRE2_ZERO_TERMINATED,
                           PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE, &code, &at, NULL);
    if (!o.code)
        fail_msg("'%s' is not compiled: %d at %zu", expression, code, (size_t)at);
    o.match = pcre2_match_data_create_from_pattern(o.code, NULL);
    return o;
}

static void oracle_release(oracle *o)
{
    pcre2_match_data_free(o->match);
    pcre2_code_free(o->code);
}

/* 1 = found, 0 = none, -1 = failed. */
static int oracle_next(const oracle *o, const kvsi_text *text, size_t from, size_t *start,
                       size_t *end)
{
    const int code = pcre2_match(o->code, (PCRE2_SPTR)text->data, text->length, from,
                                 PCRE2_NOTEMPTY, o->match, NULL);

    *start = pcre2_get_ovector_pointer(o->match)[0];
    *end = pcre2_get_ovector_pointer(o->match)[1];
    return code >= 0 ? 1 : code == PCRE2_ERROR_NOMATCH ? 0 : -1;
}

/* PCRE2 itself failed, or the text is a run on which the expression takes quadratic time.  This
 * holds for few pairs of expression and text. */
static int may_refuse(int known, kvs_status st, const kvs_err *err)
{
    static int runs;

    if (st != KVS_E_LIMIT)
        return 0;
    return !known || (strstr(err->message, "steps per byte of the text") && ++runs <= 3);
}

static void expect_same_matches(const char *expression, const kvsi_text *text)
{
    oracle o = oracle_create(expression);
    kvsi_pattern *pattern;
    kvsi_matcher *matcher = NULL;
    kvsi_search search;
    kvs_err err;

    if (kvsi_pattern_create(&pattern, expression, &err) != KVS_OK ||
        kvsi_matcher_create(&matcher, &err) != KVS_OK)
        fail_msg("%s", err.message);
    search = kvsi_search_begin(pattern, matcher, text->data, text->length);
    for (size_t from = 0;;) {
        size_t start, end, wanted_start, wanted_end;
        const int found = oracle_next(&o, text, from, &wanted_start, &wanted_end);
        const kvs_status st = kvsi_search_next(&search, from, &start, &end, &err);

        if (may_refuse(found >= 0, st, &err))
            break;
        if (st != KVS_OK)
            fail_msg("'%s' in '%.40s' from %zu: %s", expression, text->data, from, err.message);
        if ((end != 0) != found || (found && (start != wanted_start || end != wanted_end)))
            fail_msg("'%s' in '%.40s' from %zu: expected %d, %zu-%zu, found %zu-%zu", expression,
                     text->data, from, found, wanted_start, wanted_end, start, end);
        if (!found)
            break;
        from = end;
    }
    kvsi_matcher_free(matcher);
    kvsi_pattern_free(pattern);
    oracle_release(&o);
}

static void matches(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXPRESSIONS; i++)
        for (size_t t = 0; t < TEXTS; t++)
            expect_same_matches(expressions[i], texts + t);
}

/* ---- whole tokenizers ------------------------------------------------------------------------ */

static void put_quoted(kvsi_text *json, const char *text)
{
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            kvsi_text_format(json, "\\%c", *text);
        else if ((unsigned char)*text < ' ')
            kvsi_text_format(json, "\\u%04x", *text);
        else
            kvsi_text_add_bytes(json, text, 1);
    }
}

/* A byte-level tokenizer that splits by the expression, or replaces its matches by "x". */
static kvs_status load(kvs_tokenizer **out, const char *expression, int replace, kvs_err *err)
{
    kvsi_text json = {0};
    kvs_status st;
    char *path;

    kvsi_text_add(&json, replace ? "{\"normalizer\": {\"type\": \"Replace\", \"content\": \"x\", "
                                   "\"pattern\": {\"Regex\": \""
                                 : "{\"pre_tokenizer\": {\"type\": \"Sequence\", "
                                   "\"pretokenizers\": [{\"type\": \"Split\", "
                                   "\"behavior\": \"Isolated\", \"pattern\": {\"Regex\": \"");
    put_quoted(&json, expression);
    kvsi_text_add(&json, replace ? "\"}}, \"pre_tokenizer\": " : "\"}}, ");
    kvsi_text_add(&json, "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, "
                         "\"use_regex\": false}");
    kvsi_text_add(&json, replace ? "" : "]}");
    kvsi_text_add(&json, ", \"decoder\": {\"type\": \"ByteLevel\"}, \"model\": {\"type\": \"BPE\", "
                         "\"merges\": [], \"vocab\": {");
    for (unsigned i = 0; i < 256; i++) {
        char name[5] = "";

        kvsi_utf8_put(name, kvsi_byte_character((unsigned char)i));
        kvsi_text_add(&json, i ? ", \"" : "\"");
        put_quoted(&json, name);
        kvsi_text_format(&json, "\": %u", i);
    }
    kvsi_text_add(&json, "}}}");
    path = write_file(support_dir, "tokenizer.json", json.data, json.length);
    st = kvs_tokenizer_load(out, path, err);
    kvsi_free(path);
    kvsi_text_release(&json);
    return st;
}

/* Encodes and decodes a text. */
static kvs_status there_and_back(const kvs_tokenizer *t, const kvsi_text *text, kvsi_text *out,
                                 kvs_err *err)
{
    int32_t *ids = NULL;
    char *back = NULL;
    size_t count, size;
    kvs_status st;

    TRY_OUT(kvs_tokenizer_encode(&ids, &count, t, text->data, text->length, 0, err));
    TRY_OUT(kvs_tokenizer_decode(&back, &size, t, ids, count, err));
    kvsi_text_add_bytes(out, back, size);
out:
    kvs_ids_free(ids);
    kvs_text_free(back);
    return st;
}

/* 0 = PCRE2 fails on this text. */
static int replaced(const char *expression, const kvsi_text *text, kvsi_text *out)
{
    oracle o = oracle_create(expression);
    size_t from = 0, start, end;
    int found;

    kvsi_text_add(out, "");
    while ((found = oracle_next(&o, text, from, &start, &end)) > 0) {
        kvsi_text_add_bytes(out, text->data + from, start - from);
        kvsi_text_add(out, "x");
        from = end;
    }
    kvsi_text_add_bytes(out, text->data + from, text->length - from);
    oracle_release(&o);
    return found == 0;
}

static void expect_whole(const char *expression, int replace)
{
    kvs_tokenizer *t;
    kvs_err err;

    if (load(&t, expression, replace, &err) != KVS_OK)
        fail_msg("'%s': %s", expression, err.message);
    for (size_t i = 0; i < TEXTS; i++) {
        kvsi_text wanted = {0}, found = {0};
        const int known = replaced(expression, texts + i, &wanted);
        const kvs_status st = there_and_back(t, texts + i, &found, &err);
        const kvsi_text *expected = replace ? &wanted : texts + i;

        if (st != KVS_OK && !may_refuse(known, st, &err))
            fail_msg("'%s' in '%.40s': %s", expression, texts[i].data, err.message);
        if (st == KVS_OK && (found.length != expected->length ||
                             memcmp(found.data, expected->data, found.length) != 0))
            fail_msg("'%s' in '%.40s': not the text", expression, texts[i].data);
        kvsi_text_release(&wanted);
        kvsi_text_release(&found);
    }
    kvs_tokenizer_free(t);
}

static void splitting(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXPRESSIONS; i++)
        expect_whole(expressions[i], 0);
}

static void replacing(void **state)
{
    (void)state;
    for (size_t i = 0; i < EXPRESSIONS; i++)
        expect_whole(expressions[i], 1);
}

/* These would match before the start of the search, or end before they start. */
static void moved_starts(void **state)
{
    (void)state;
    for (size_t i = 0; i < REFUSED; i++)
        for (int replace = 0; replace < 2; replace++) {
            kvs_tokenizer *t;
            kvs_err err = {0};

            assert_int_not_equal(load(&t, refused[i], replace, &err), KVS_OK);
            assert_null(t);
            if (!strstr(err.message, "expression '") || !strstr(err.message, "not supported"))
                fail_msg("'%s': '%s'", refused[i], err.message);
        }
}

/* ---- time ------------------------------------------------------------------------------------ */

/* Some would take hours, some centuries. */
static void costly(void **state)
{
    static const char *const list[] = {
        "(a+)\\1+b|a",
        "(?i)(a+)\\1+b|a",
        "a*b|a",
        "a*+b|a",
        "[ab]*c|a",
        "a*a*a*a*b|a",
        "(?:a|a)*b|a",
        "(a|aa)+b|a",
        "(?:a*)*b|a",
        "(?=a*b)|a",
        "(?=(a+)+b)|a",
        "a(?=.*b)|a",
        "(?<=a{1000})b|a",
        "(a)(?R)*b|a",
        "(?<x>a+)(?&x)*b|a",
        "(?>a+)b|a",
        "(?(?=a*b)x|a)",
        "a{500}a{500}b|a",
        "(?:a?){40}b|a",
        "(*NO_JIT)(a+)+b|a",
        "\\Ga*b|a",
        "(.*)(.*)(.*)(.*)(.*)b|a",
    };
    kvsi_text text = {0};

    (void)state;
    repeat(&text, "a", 30000);
    for (size_t i = 0; i < sizeof list / sizeof *list; i++) {
        kvsi_text found = {0};
        kvs_tokenizer *t;
        kvs_err err = {0};
        kvs_status st;

        if (load(&t, list[i], 0, &err) != KVS_OK)
            fail_msg("'%s': %s", list[i], err.message);
        st = there_and_back(t, &text, &found, &err);
        if (st != KVS_E_LIMIT ||
            (!strstr(err.message, "steps per byte of the text") && !strstr(err.message, "failed")))
            fail_msg("'%s': expected a refusal, found %d '%s'", list[i], st, err.message);
        kvsi_text_release(&found);
        kvs_tokenizer_free(t);
    }
    kvsi_text_release(&text);
}

/* Expressions of real tokenizers on runs of one kind of character. */
static void ordinary(void **state)
{
    static const char *const list[] = {
        KVSI_GPT2_EXPRESSION,
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}|"
        " ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
        "[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]*[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]+"
        "(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\\r\\n\\p{L}\\p{N}]?[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}]+"
        "[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}]*|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n/]*|\\s*[\\r\\n]+|"
        "\\s+(?!\\S)|\\s+",
    };
    static const char *const parts[] = {"a", "A", " ", "\n", "\n ", "=", "7", "aA", "日", "it's "};

    (void)state;
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        for (size_t k = 0; k < sizeof parts / sizeof *parts; k++) {
            kvsi_text text = {0};
            kvsi_pattern *pattern;
            kvsi_matcher *matcher = NULL;
            kvsi_search search;
            kvs_err err;

            repeat(&text, parts[k], 200000);
            if (kvsi_pattern_create(&pattern, list[i], &err) != KVS_OK ||
                kvsi_matcher_create(&matcher, &err) != KVS_OK)
                fail_msg("%s", err.message);
            search = kvsi_search_begin(pattern, matcher, text.data, text.length);
            for (size_t from = 0, start, end; from < text.length; from = end) {
                if (kvsi_search_next(&search, from, &start, &end, &err) != KVS_OK)
                    fail_msg("%zu '%s': %s", i, parts[k], err.message);
                assert_int_equal(start, from);
                assert_true(end > from);
            }
            kvsi_matcher_free(matcher);
            kvsi_pattern_free(pattern);
            kvsi_text_release(&text);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(matches, make_texts, release_texts),
        cmocka_unit_test_setup_teardown(splitting, make_texts, release_texts),
        cmocka_unit_test_setup_teardown(replacing, make_texts, release_texts),
        cmocka_unit_test(moved_starts),
        cmocka_unit_test(costly),
        cmocka_unit_test(ordinary),
    };

    return cmocka_run_group_tests(tests, support_dir_setup, support_dir_teardown);
}
