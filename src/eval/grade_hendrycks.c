/* Grading of hendrycks_math: two strings are equal after both were stripped of notation.
 *
 * The harness's function raises an exception for some strings and then compares the texts as they
 * are.  Here a step that would raise returns 0. */
#include "base/memory.h"
#include "base/utf8.h"
#include "eval/grade_math.h"
#include "eval/rewrite.h"
#include "tokenizer/characters.h"

#include <string.h>

/* ---- steps ----------------------------------------------------------------------------------- */

/* Units on the right: keeps what is before "\text{ ", which may occur once. */
static int remove_units(kvsi_rewrite *r)
{
    static const char unit[] = "\\text{ ";
    const char *found = strstr(r->text.data, unit);

    if (!found)
        return 1;
    if (strstr(found + strlen(unit), unit))
        return 0;
    kvsi_keep(r, 0, (size_t)(found - r->text.data));
    return 1;
}

/* "x=5": keeps the right side if there is one '=' with at most two characters before it. */
static void remove_name(kvsi_rewrite *r)
{
    const char *text = r->text.data, *sign = strchr(text, '=');
    size_t count = 0;
    uint32_t code;

    if (!sign || strchr(sign + 1, '='))
        return;
    for (const char *at = text; at < sign && count <= 2; count++)
        at += kvsi_utf8_next(at, (size_t)(sign - at), &code);
    if (count <= 2)
        kvsi_keep(r, (size_t)(sign + 1 - text), strlen(sign + 1));
}

/* Bytes of the first character. */
static size_t first_size(const char *text)
{
    uint32_t code;

    return kvsi_utf8_next(text, strnlen(text, 4), &code);
}

static void add_braced(kvsi_text *out, const char *text, size_t size)
{
    kvsi_text_add(out, "{");
    kvsi_text_add_bytes(out, text, size);
    kvsi_text_add(out, "}");
}

/* "\sqrt3" becomes "\sqrt{3}".  Raises if nothing, or the next "\sqrt", follows. */
static int fix_roots(kvsi_rewrite *r)
{
    static const char root[] = "\\sqrt";
    const char *rest = r->text.data, *found;

    if (!strstr(rest, root) || !kvsi_rewrite_begin(r))
        return 1;
    while ((found = strstr(rest, root)) != NULL) {
        const char *after = found + strlen(root);

        kvsi_text_add_bytes(&r->spare, rest, (size_t)(after - rest));
        if (!*after || strncmp(after, root, strlen(root)) == 0)
            return 0;
        if (*after != '{') {
            const size_t size = first_size(after);

            add_braced(&r->spare, after, size);
            after += size;
        }
        rest = after;
    }
    kvsi_text_add(&r->spare, rest);
    kvsi_rewrite_end(r);
    return 1;
}

/* "\frac12" becomes "\frac{1}{2}", and "\frac1{2}" becomes "\frac{1}{2}".  Each part is what stands
 * between one "\frac" and the next.  An empty part raises; one of a single character leaves the
 * text as it is. */
static int fix_fractions(kvsi_rewrite *r)
{
    static const char fraction[] = "\\frac";
    const char *part = strstr(r->text.data, fraction);

    if (!part || !kvsi_rewrite_begin(r))
        return 1;
    kvsi_text_add_bytes(&r->spare, r->text.data, (size_t)(part - r->text.data));
    while (part) {
        const char *start = part + strlen(fraction), *next = strstr(start, fraction);
        const char *end = next ? next : start + strlen(start);

        kvsi_text_add(&r->spare, fraction);
        if (start == end)
            return 0;
        if (*start != '{') {
            const size_t above = first_size(start);

            if (start + above == end)
                return 1;
            add_braced(&r->spare, start, above);
            start += above;
            if (*start != '{') {
                const size_t below = first_size(start);

                add_braced(&r->spare, start, below);
                start += below;
            }
        }
        kvsi_text_add_bytes(&r->spare, start, (size_t)(end - start));
        part = next;
    }
    kvsi_rewrite_end(r);
    return 1;
}

/* ---- "a/b" ----------------------------------------------------------------------------------- */

enum { LARGEST_INT = 4300 }; /* digits that Python's int() reads */

/* Whether Python's int() reads the text: space around it, a sign, decimal digits of any script,
 * single '_' between digits. */
static int is_python_int(const char *text, size_t size)
{
    size_t digits = 0;
    int after_digit = 0;
    uint32_t code = 0;

    while (size > 0) {
        const size_t length = kvsi_utf8_next(text, size, &code);

        if (!kvsi_is_space(code))
            break;
        text += length;
        size -= length;
    }
    while (size > 0) {
        const size_t length = kvsi_utf8_last(text, size, &code);

        if (!kvsi_is_space(code))
            break;
        size -= length;
    }
    if (size > 0 && (*text == '-' || *text == '+')) {
        text++;
        size--;
    }
    while (size > 0) {
        const size_t length = kvsi_utf8_next(text, size, &code);

        if (!kvsi_is_decimal(code) && !(code == '_' && after_digit))
            return 0;
        after_digit = code != '_';
        digits += (size_t)after_digit;
        text += length;
        size -= length;
    }
    return after_digit && digits <= LARGEST_INT;
}

/* Whether Python prints the integer as it stands here. */
static int is_canonical(const char *text, size_t size)
{
    if (size > 1 && *text == '-' && text[1] != '0') {
        text++;
        size--;
    }
    return size > 0 && strspn(text, "0123456789") >= size && (size == 1 || *text != '0');
}

/* "1/2" becomes "\frac{1}{2}"; "01/2" stays; "x/2" raises. */
static int fix_slash(kvsi_rewrite *r)
{
    const char *above = r->text.data, *slash = strchr(above, '/'), *below;
    size_t above_size, below_size;

    if (!slash || strchr(slash + 1, '/'))
        return 1;
    below = slash + 1;
    above_size = (size_t)(slash - above);
    below_size = strlen(below);
    if (!is_python_int(above, above_size) || !is_python_int(below, below_size))
        return 0;
    if (!is_canonical(above, above_size) || !is_canonical(below, below_size) ||
        !kvsi_rewrite_begin(r))
        return 1;
    kvsi_text_add(&r->spare, "\\frac");
    add_braced(&r->spare, above, above_size);
    add_braced(&r->spare, below, below_size);
    kvsi_rewrite_end(r);
    return 1;
}

/* ---- the whole ------------------------------------------------------------------------------- */

/* Returns 0 if Python's function raises.  Memory that has run out shows in r->text. */
static int strip_notation(kvsi_rewrite *r, const char *text)
{
    static const char *const first[][2] = {
        {"\n", ""},     {"\\!", ""},     {"\\\\", "\\"},    {"tfrac", "frac"}, {"dfrac", "frac"},
        {"\\left", ""}, {"\\right", ""}, {"^{\\circ}", ""}, {"^\\circ", ""},   {"\\$", ""},
    };
    static const char *const second[][2] = {{"\\%", ""}, {" .", " 0."}, {"{.", "{0."}};

    kvsi_rewrite_start(r, text, strlen(text));
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        kvsi_replace(r, first[i][0], first[i][1]);
    if (r->text.failed || !remove_units(r))
        return 0;
    for (size_t i = 0; i < sizeof second / sizeof *second; i++)
        kvsi_replace(r, second[i][0], second[i][1]);
    if (r->text.failed || r->text.length == 0)
        return 1;
    if (*r->text.data == '.' && kvsi_rewrite_begin(r)) {
        kvsi_text_add(&r->spare, "0");
        kvsi_text_add(&r->spare, r->text.data);
        kvsi_rewrite_end(r);
    }
    if (r->text.failed)
        return 1;
    remove_name(r);
    if (r->text.failed || !fix_roots(r))
        return 0;
    kvsi_replace(r, " ", "");
    if (r->text.failed || !fix_fractions(r))
        return 0;
    if (r->text.failed)
        return 1;
    if (strcmp(r->text.data, "0.5") == 0)
        kvsi_rewrite_start(r, "\\frac{1}{2}", strlen("\\frac{1}{2}"));
    return r->text.failed || fix_slash(r);
}

static kvs_status compare(kvsi_verdict *verdict, const char *answer, const char *gold, kvs_err *err)
{
    kvsi_rewrite a = {0}, b = {0};
    const int both = strip_notation(&a, answer) & strip_notation(&b, gold);
    kvs_status st;

    TRY_OUT(kvsi_text_check(&a.text, err));
    TRY_OUT(kvsi_text_check(&b.text, err));
    if (both)
        *verdict = strcmp(a.text.data, b.text.data) == 0 ? KVSI_RIGHT : KVSI_WRONG;
    else
        *verdict = strcmp(answer, gold) == 0 ? KVSI_RIGHT : KVSI_WRONG;
out:
    kvsi_rewrite_release(&a);
    kvsi_rewrite_release(&b);
    return st;
}

/* The text between the first and the last '$'; all of it if there are fewer than two. */
static kvs_status take_answer(char **out, const char *generated, kvs_err *err)
{
    const char *first = strchr(generated, '$'), *last = strrchr(generated, '$');
    const int all = first == last;
    const char *start = all ? generated : first + 1;
    const size_t size = all ? strlen(generated) : (size_t)(last - start);

    *out = kvsi_alloc(size + 1, 1);
    if (!*out)
        return kvsi_no_memory(err, "an answer of %zu bytes", size);
    memcpy(*out, start, size);
    return KVS_OK;
}

kvs_status kvsi_grade_hendrycks(kvsi_math_grade *out, const char *generated, const char *solution,
                                kvs_err *err)
{
    TRY(kvsi_math_boxed(&out->gold, solution, err));
    TRY(take_answer(&out->answer, generated, err));
    return compare(&out->verdict, out->answer, out->gold, err);
}
