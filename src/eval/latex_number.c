#include "eval/latex_number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static const char DIGITS[] = "0123456789";

/* Numbers up to LARGEST are exact, since products of two of them fit in 64 bits.  Longer ones are
 * compared as doubles; LONGEST digits cannot overflow those. */
enum { LARGEST = 1000000000, LONGEST = 100 };

typedef enum kind { OTHER, NUMBER, UNREADABLE } kind;

typedef struct part { /* of a fraction */
    double value;
    int64_t exact; /* if value is at most LARGEST */
} part;

typedef struct number {
    part above, below; /* below is not 0 */
    int minus, is_decimal, unreadable;
} number;

/* ---- numbers: each function returns where it ended, or NULL ---------------------------------- */

static const char *read_digits(part *out, const char *text)
{
    const size_t count = strspn(text, DIGITS);

    if (count == 0 || count > LONGEST)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        out->value = out->value * 10 + (text[i] - '0');
        if (out->value <= LARGEST)
            out->exact = out->exact * 10 + (text[i] - '0');
    }
    return text + count;
}

/* Sympy refuses integers with zeros before other digits. */
static const char *read_integer(number *out, part *value, const char *text)
{
    const char *end = read_digits(value, text);

    out->unreadable |= end && *text == '0' && value->value > 0;
    return end;
}

/* "{12}" or "{-12}" */
static const char *read_braced(number *out, part *value, const char *text)
{
    if (*text++ != '{')
        return NULL;
    if (*text == '-') {
        out->minus ^= 1;
        text++;
    }
    text = read_integer(out, value, text);
    return text && *text == '}' ? text + 1 : NULL;
}

static const char *read_fraction(number *out, const char *text)
{
    static const char *const names[] = {"\\frac", "\\dfrac", "\\tfrac"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strncmp(text, names[i], strlen(names[i])) == 0) {
            text = read_braced(out, &out->above, text + strlen(names[i]));
            return text ? read_braced(out, &out->below, text) : NULL;
        }
    return NULL;
}

/* "1.50" is 150/100.  Sympy needs digits on both sides of the point. */
static const char *read_decimal(number *out, const char *text, size_t before)
{
    const size_t after = strspn(text + before + 1, DIGITS);
    char digits[LONGEST + 1], power[LONGEST + 1] = "1";

    if (before >= LONGEST / 2 || after >= LONGEST / 2)
        return NULL;
    memcpy(digits, text, before);
    memcpy(digits + before, text + before + 1, after);
    digits[before + after] = '\0';
    memset(power + 1, '0', after);
    out->is_decimal = 1;
    out->unreadable |= before == 0 || after == 0;
    read_digits(&out->below, power);
    return read_digits(&out->above, digits) ? text + before + 1 + after : NULL;
}

/* A decimal, "12" or "3/4" */
static const char *read_plain(number *out, const char *text)
{
    const size_t digits = strspn(text, DIGITS);

    if (text[digits] == '.')
        return read_decimal(out, text, digits);
    text = read_integer(out, &out->above, text);
    if (text && *text == '/')
        return read_integer(out, &out->below, text + 1);
    out->below = (part){1, 1};
    return text;
}

/* ---- kinds of texts -------------------------------------------------------------------------- */

/* Whether the comma may separate thousands: "1,000" is one number for sympy. */
static int joins_digits(const char *comma, const char *start)
{
    return comma > start && comma[-1] >= '0' && comma[-1] <= '9' && strspn(comma + 1, DIGITS) >= 3;
}

/* A bracket at the start, with a comma directly inside: a tuple or an interval. */
static int is_tuple(const char *text)
{
    const char *start = text;
    size_t depth = 0;

    if (strncmp(text, "\\left", 5) == 0)
        text += 5;
    if (*text != '(' && *text != '[')
        return 0;
    do {
        depth += strchr("([{", *text) != NULL;
        depth -= strchr(")]}", *text) != NULL;
        if (*text == ',' && depth == 1 && !joins_digits(text, start))
            return 1;
    } while (*++text && depth > 0);
    return 0;
}

static int is_matrix(const char *text)
{
    const char *row = strstr(text, "\\\\"), *comma = strchr(text, ',');

    return strncmp(text, "\\begin{", 7) == 0 && row && (!comma || row < comma);
}

static kind read_text(number *out, const char *text)
{
    const char *end;

    *out = (number){.minus = *text == '-'};
    if (!*text || is_tuple(text) || is_matrix(text))
        return UNREADABLE;
    text += out->minus;
    end = *text == '\\' ? read_fraction(out, text) : read_plain(out, text);
    if (!end)
        return OTHER;
    if (strcmp(end, "\\%") == 0 || strcmp(end, "%") == 0)
        return UNREADABLE;
    if (*end || out->below.value <= 0)
        return OTHER;
    return out->unreadable ? UNREADABLE : NUMBER;
}

/* ---- comparing ------------------------------------------------------------------------------- */

static int is_exact(const number *x)
{
    return x->above.value <= LARGEST && x->below.value <= LARGEST;
}

static double value(const number *x)
{
    const double absolute = x->above.value / x->below.value;

    return x->minus ? -absolute : absolute;
}

static int is_long_integer(const char *text)
{
    text += *text == '-';
    return *text > '0' && *text <= '9' && !text[strspn(text, DIGITS)];
}

/* Sympy rounds a decimal to at least 53 bits, and then the other number, too.  Equal numbers stay
 * equal; those that differ by more than CLOSE stay different. */
kvsi_latex_result kvsi_latex_compare(const char *a, const char *b)
{
    static const double CLOSE = 1e-12;
    number x, y;
    const kind first = read_text(&x, a), second = read_text(&y, b);
    double p, q;

    if (first == UNREADABLE || second == UNREADABLE)
        return KVSI_LATEX_DIFFER;
    if (is_long_integer(a) && is_long_integer(b))
        return KVSI_LATEX_DIFFER; /* as their texts do */
    if (first != NUMBER || second != NUMBER)
        return KVSI_LATEX_UNKNOWN;
    p = value(&x);
    q = value(&y);
    if (fabs(p - q) > CLOSE * fmax(fabs(p), fabs(q)))
        return KVSI_LATEX_DIFFER;
    if (!is_exact(&x) || !is_exact(&y))
        return KVSI_LATEX_UNKNOWN;
    if (x.above.exact * y.below.exact == y.above.exact * x.below.exact)
        return KVSI_LATEX_EQUAL;
    return x.is_decimal || y.is_decimal ? KVSI_LATEX_UNKNOWN : KVSI_LATEX_DIFFER;
}
