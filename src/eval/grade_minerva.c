/* Grading of minerva_math: the final answer is taken from a fixed sentence, normalized and compared
 * as text, then as a number.  The rules are regular expressions of Python in the harness; here each
 * is one pass over the text. */
#include "base/memory.h"
#include "base/utf8.h"
#include "eval/grade_math.h"
#include "eval/latex_number.h"
#include "eval/rewrite.h"
#include "tokenizer/characters.h"

#include <string.h>

#define COUNT(list) (sizeof(list) / sizeof *(list))

static const char INVALID[] = "[invalidanswer]";

/* ---- characters ------------------------------------------------------------------------------ */

/* Bytes of the character at `text`, which is not at its end; *code is the character. */
static size_t next(const char *text, uint32_t *code)
{
    return kvsi_utf8_next(text, strnlen(text, 4), code);
}

/* Python's \w. */
static int is_word(uint32_t code)
{
    return code == '_' || kvsi_is_letter(code) || kvsi_is_numeric(code);
}

static int is_letter(char byte)
{
    return (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
}

static int is_space(uint32_t code)
{
    return kvsi_is_space(code) || (code >= 0x1c && code <= 0x1f);
}

static int starts_with(const char *text, const char *start)
{
    return strncmp(text, start, strlen(start)) == 0;
}

/* ---- the sentence with the answer ------------------------------------------------------------ */

static void strip(const char **text, size_t *size)
{
    uint32_t code;

    while (*size > 0) {
        const size_t length = kvsi_utf8_next(*text, *size, &code);

        if (!is_space(code))
            break;
        *text += length;
        *size -= length;
    }
    while (*size > 0) {
        const size_t length = kvsi_utf8_last(*text, *size, &code);

        if (!is_space(code))
            break;
        *size -= length;
    }
}

/* Finds "Final Answer: The final answer isANSWER? I hope it is correct?" on one line, where '?' is
 * any character; the first such sentence with the shortest answer.  The closing words are appended
 * to the text first, so a text may end before them. */
static kvs_status take_answer(kvsi_rewrite *r, const char *generated, kvs_err *err)
{
    static const char before[] = "Final Answer: The final answer is";
    static const char after[] = " I hope it is correct";
    kvsi_text text = {0};
    const char *answer = INVALID, *close, *end;
    size_t size = strlen(INVALID);
    kvs_status st;

    kvsi_text_add(&text, generated);
    kvsi_text_add(&text, after + 1);
    kvsi_text_add(&text, ".");
    TRY_OUT(kvsi_text_check(&text, err));
    close = text.data; /* the first closing words behind the place where they were looked for */
    for (const char *at = strstr(text.data, before); at && close; at = strstr(end, before)) {
        const char *start = at + strlen(before);
        uint32_t code;

        end = start + strcspn(start, "\n");
        if (start == end)
            continue;
        if (close < start + next(start, &code))
            close = strstr(start + next(start, &code), after);
        if (close && close + strlen(after) < end) {
            answer = start;
            size = (size_t)(close - start);
            size -= kvsi_utf8_last(start, size, &code);
            break;
        }
    }
    strip(&answer, &size);
    kvsi_rewrite_start(r, answer, size);
    st = kvsi_text_check(&r->text, err);
out:
    kvsi_text_release(&text);
    return st;
}

/* ---- steps of normalization ------------------------------------------------------------------ */

/* In the order in which they are removed.  Words of letters are units. */
static const char *const removed[] = {
    "square",       "ways",
    "integers",     "dollars",
    "mph",          "inches",
    "ft",           "hours",
    "km",           "units",
    "\\ldots",      "sue",
    "points",       "feet",
    "minutes",      "digits",
    "cents",        "degrees",
    "cm",           "gm",
    "pounds",       "meters",
    "meals",        "edges",
    "students",     "childrentickets",
    "multiples",    "\\text{s}",
    "\\text{.}",    "\\text{\ns}",
    "\\text{}^2",   "\\text{}^3",
    "\\text{\n}",   "\\text{}",
    "\\mathrm{th}", "^\\circ",
    "^{\\circ}",    "\\;",
    ",\\!",         "{,}",
    "\"",           "\\dots",
};

static int is_unit(const char *word)
{
    return is_letter(*word);
}

/* Removes the word where it stands alone and not after a backslash: (?<!\\)\bWORD\b */
static void remove_alone(kvsi_rewrite *r, const char *word)
{
    const size_t size = strlen(word);
    const char *rest, *found;
    uint32_t code;

    if (r->text.failed || !strstr(r->text.data, word) || !kvsi_rewrite_begin(r))
        return;
    rest = r->text.data;
    for (const char *from = rest; (found = strstr(from, word)) != NULL;) {
        const char *after = found + size;
        int alone = 1;

        if (found > r->text.data) {
            kvsi_utf8_last(r->text.data, (size_t)(found - r->text.data), &code);
            alone = code != '\\' && !is_word(code);
        }
        if (alone && *after) {
            next(after, &code);
            alone = !is_word(code);
        }
        from = alone ? after : found + 1;
        if (alone) {
            kvsi_text_add_bytes(&r->spare, rest, (size_t)(found - rest));
            rest = after;
        }
    }
    kvsi_text_add(&r->spare, rest);
    kvsi_rewrite_end(r);
}

/* Removes the word everywhere except in names of commands. */
static void remove_outside_commands(kvsi_rewrite *r, const char *word)
{
    const char *at;

    if (r->text.failed || !strstr(r->text.data, word) || !kvsi_rewrite_begin(r))
        return;
    for (at = r->text.data; *at;) {
        size_t size = 1;

        if (*at == '\\')
            while (is_letter(at[size]))
                size++;
        else if (starts_with(at, word)) {
            at += strlen(word);
            continue;
        }
        kvsi_text_add_bytes(&r->spare, at, size);
        at += size;
    }
    kvsi_rewrite_end(r);
}

/* A line with two or more '$' becomes what is between the first two, with them:
 * (.*?)(\$)(.*?)(\$)(.*) */
static void keep_formula(kvsi_rewrite *r)
{
    const char *line;

    if (r->text.failed || !strchr(r->text.data, '$') || !kvsi_rewrite_begin(r))
        return;
    for (line = r->text.data;;) {
        const size_t size = strcspn(line, "\n");
        const char *first = memchr(line, '$', size), *second = NULL;

        if (first)
            second = memchr(first + 1, '$', size - (size_t)(first + 1 - line));
        if (second)
            kvsi_text_add_bytes(&r->spare, first, (size_t)(second + 1 - first));
        else
            kvsi_text_add_bytes(&r->spare, line, size);
        line += size;
        if (!*line)
            break;
        kvsi_text_add_bytes(&r->spare, line++, 1);
    }
    kvsi_rewrite_end(r);
}

/* Replaces `command`, which ends with '{', and its content up to the first '}' of the same line by
 * the content: (COMMAND)(.*?)(\}) */
static void unwrap(kvsi_rewrite *r, const char *command)
{
    const char *at, *found, *close;

    if (r->text.failed || !strstr(r->text.data, command) || !kvsi_rewrite_begin(r))
        return;
    at = close = r->text.data;
    while ((found = strstr(at, command)) != NULL) {
        const char *content = found + strlen(command);

        if (close < content)
            close = content + strcspn(content, "}\n");
        if (*close == '}') {
            kvsi_text_add_bytes(&r->spare, at, (size_t)(found - at));
            kvsi_text_add_bytes(&r->spare, content, (size_t)(close - content));
            at = close + 1;
        } else {
            kvsi_text_add_bytes(&r->spare, at, (size_t)(content - at));
            at = content;
        }
    }
    kvsi_text_add(&r->spare, at);
    kvsi_rewrite_end(r);
}

/* The same for \boxed{ and the last '}' of the line: (\\boxed\{)(.*)(\}) */
static void unwrap_box(kvsi_rewrite *r)
{
    static const char command[] = "\\boxed{";
    const char *at, *found;

    if (r->text.failed || !strstr(r->text.data, command) || !kvsi_rewrite_begin(r))
        return;
    for (at = r->text.data; (found = strstr(at, command)) != NULL;) {
        const char *content = found + strlen(command), *end = content + strcspn(content, "\n");
        const char *close = end;

        while (close > content && close[-1] != '}')
            close--;
        kvsi_text_add_bytes(&r->spare, at, (size_t)(found - at));
        if (close > content) {
            kvsi_text_add_bytes(&r->spare, content, (size_t)(close - 1 - content));
            kvsi_text_add_bytes(&r->spare, close, (size_t)(end - close));
        } else {
            kvsi_text_add_bytes(&r->spare, found, (size_t)(end - found));
        }
        at = end;
    }
    kvsi_text_add(&r->spare, at);
    kvsi_rewrite_end(r);
}

static void add_braced(kvsi_text *out, const char *text, size_t size)
{
    kvsi_text_add(out, "{");
    kvsi_text_add_bytes(out, text, size);
    kvsi_text_add(out, "}");
}

/* What stands behind a word is rewritten by `fix`, which appends it to `out` and returns how many
 * bytes it has used; 0 = it does not match, and nothing was appended. */
typedef size_t fix_function(kvsi_text *out, const char *text, const char **known);

static void fix_after(kvsi_rewrite *r, const char *word, fix_function *fix)
{
    const char *at, *found, *known = NULL;

    if (r->text.failed || !strstr(r->text.data, word) || !kvsi_rewrite_begin(r))
        return;
    for (at = r->text.data; (found = strstr(at, word)) != NULL;) {
        const char *after = found + strlen(word);

        kvsi_text_add_bytes(&r->spare, at, (size_t)(after - at));
        at = after + fix(&r->spare, after, &known);
    }
    kvsi_text_add(&r->spare, at);
    kvsi_rewrite_end(r);
}

/* frac: ([^{])(.) becomes {\1}{\2} */
static size_t fix_fraction(kvsi_text *out, const char *text, const char **known)
{
    uint32_t code;
    size_t above, below;

    (void)known;
    if (!*text || *text == '{')
        return 0;
    above = next(text, &code);
    if (!text[above] || text[above] == '\n')
        return 0;
    below = next(text + above, &code);
    add_braced(out, text, above);
    add_braced(out, text + above, below);
    return above + below;
}

/* sqrt: (\[[^\]]*\])(\w) becomes \1{\2}.  *known: the next ']' at or after a place seen before. */
static size_t fix_indexed_root(kvsi_text *out, const char *text, const char **known)
{
    uint32_t code;
    size_t index, size;

    if (*text != '[')
        return 0;
    if (!*known || *known < text)
        *known = text + strcspn(text, "]");
    if (!**known || !(*known)[1])
        return 0;
    index = (size_t)(*known + 1 - text);
    size = next(text + index, &code);
    if (!is_word(code))
        return 0;
    kvsi_text_add_bytes(out, text, index);
    add_braced(out, text + index, size);
    return index + size;
}

/* sqrt: (?!\[)([^{]) becomes {\1} */
static size_t fix_root(kvsi_text *out, const char *text, const char **known)
{
    uint32_t code;
    size_t size;

    (void)known;
    if (!*text || *text == '{' || *text == '[')
        return 0;
    size = next(text, &code);
    add_braced(out, text, size);
    return size;
}

/* Whether all of the text is -?\d{1,3}(,\d{3})+ with decimal digits of any script. */
static int has_thousands(const char *text)
{
    size_t digits = 0, groups = 0;
    uint32_t code;

    for (text += *text == '-'; *text;) {
        text += next(text, &code);
        if (code == ',' && (groups > 0 ? digits == 3 : digits > 0)) {
            groups++;
            digits = 0;
        } else if (kvsi_is_decimal(code) && digits < 3) {
            digits++;
        } else {
            return 0;
        }
    }
    return groups > 0 && digits == 3;
}

static kvs_status normalize(kvsi_rewrite *r, kvs_err *err)
{
    static const char *const substitutions[][2] = {
        {"an ", ""},          {"a ", ""},
        {".$", "$"},          {"\\$", ""},
        {"\\ ", ""},          {" ", ""},
        {"mbox", "text"},     {",\\text{and}", ","},
        {"\\text{and}", ","}, {"\\text{m}", "\\text{}"},
    };
    const char *sign = strrchr(r->text.data, '=');

    if (sign)
        kvsi_keep(r, (size_t)(sign + 1 - r->text.data), strlen(sign + 1));
    for (size_t i = 0; i < COUNT(removed); i++)
        if (is_unit(removed[i]))
            remove_alone(r, removed[i]);
    for (size_t i = 0; i < COUNT(substitutions); i++)
        kvsi_replace(r, substitutions[i][0], substitutions[i][1]);
    for (size_t i = 0; i < COUNT(removed); i++) {
        if (is_unit(removed[i]))
            remove_outside_commands(r, removed[i]);
        else
            kvsi_replace(r, removed[i], "");
    }
    keep_formula(r);
    unwrap(r, "\\text{");
    unwrap(r, "\\textbf{");
    unwrap(r, "\\overline{");
    unwrap_box(r);
    fix_after(r, "frac", fix_fraction);
    fix_after(r, "sqrt", fix_indexed_root);
    fix_after(r, "sqrt", fix_root);
    kvsi_replace(r, "$", "");
    if (!r->text.failed && has_thousands(r->text.data))
        kvsi_replace(r, ",", "");
    return kvsi_text_check(&r->text, err);
}

/* ---- the decision ---------------------------------------------------------------------------- */

static kvsi_verdict decide(const char *answer, const char *gold)
{
    if (*answer && strcmp(answer, gold) == 0)
        return KVSI_RIGHT;
    if (strcmp(answer, INVALID) == 0)
        return KVSI_WRONG;
    switch (kvsi_latex_compare(answer, gold)) {
    case KVSI_LATEX_EQUAL:
        return KVSI_RIGHT;
    case KVSI_LATEX_DIFFER:
        return KVSI_WRONG;
    default:
        return KVSI_UNDECIDED;
    }
}

/* The text of *r becomes the caller's. */
static char *take_text(kvsi_rewrite *r)
{
    char *text = r->text.data;

    r->text = (kvsi_text){0};
    return text;
}

kvs_status kvsi_minerva_boxed(char **answer, const char *solution, kvs_err *err)
{
    kvsi_rewrite r = {0};
    char *boxed = NULL;
    kvs_status st;

    *answer = NULL;
    TRY_OUT(kvsi_math_boxed(&boxed, solution, err));
    kvsi_rewrite_start(&r, boxed, strlen(boxed));
    TRY_OUT(kvsi_text_check(&r.text, err));
    TRY_OUT(normalize(&r, err));
    *answer = take_text(&r);
out:
    kvsi_free(boxed);
    kvsi_rewrite_release(&r);
    return st;
}

kvs_status kvsi_grade_minerva(kvsi_math_grade *out, const char *generated, const char *solution,
                              kvs_err *err)
{
    kvsi_rewrite r = {0};
    kvs_status st;

    TRY_OUT(kvsi_minerva_boxed(&out->gold, solution, err));
    TRY_OUT(take_answer(&r, generated, err));
    TRY_OUT(normalize(&r, err));
    out->answer = take_text(&r);
    out->verdict = decide(out->answer, out->gold);
out:
    kvsi_rewrite_release(&r);
    return st;
}
