/* Writes problems and solutions word by word, and recognizes steps.
 *
 *     full      the tally of NETS within every HARBOUR equals 5 added to the tally of ...
 *     compact   HARBOUR NETS = 5 + HARBOUR OARS . */
#include "data/tasks/igsm_words.h"

#include <string.h>

/* ---- words and names ------------------------------------------------------------------------- */

typedef struct writer {
    kvsi_igsm_text *out;
    const kvsi_igsm_words *words;
    const kvsi_igsm_problem *problem;
} writer;

static void put(writer *t, size_t word)
{
    if (t->out->count == KVSI_IGSM_WORDS_MAX)
        t->out->overflow = 1;
    else
        t->out->words[t->out->count++] = (uint16_t)word;
}

/* A list of words, ended by -1. */
static void put_all(writer *t, const int *list)
{
    for (; *list >= 0; list++)
        put(t, (size_t)*list);
}

#define PUT(t, ...) put_all(t, (const int[]){__VA_ARGS__, -1})

static void put_number(writer *t, int number)
{
    put(t, kvsi_igsm_first_number(t->words) + (size_t)number);
}

static void put_letter(writer *t, size_t letter)
{
    put(t, kvsi_igsm_first_letter(t->words) + letter);
}

static void put_name(writer *t, int16_t name)
{
    const size_t first = kvsi_igsm_first_name(t->words), noun = (size_t)name / KVSI_IGSM_NAMES;

    if (name >= KVSI_IGSM_OFFICIAL_NAMES) {
        put(t, first + (size_t)(name - KVSI_IGSM_OFFICIAL_NAMES));
        return;
    }
    put(t, first + KVSI_IGSM_OFFICIAL_CATEGORIES + KVSI_IGSM_OFFICIAL_NOUNS +
               noun / KVSI_IGSM_LISTS % KVSI_IGSM_CATEGORIES * KVSI_IGSM_NAMES +
               (size_t)name % KVSI_IGSM_NAMES);
    put(t, first + KVSI_IGSM_OFFICIAL_CATEGORIES + noun);
}

static void put_thing(writer *t, const kvsi_igsm_parameter *p)
{
    if (t->words->mode == KVSI_IGSM_PAPER)
        put(t, kvsi_igsm_first_name(t->words) + KVSI_IGSM_PLACES + (size_t)p->thing);
    else
        put_name(t, p->thing);
}

static void put_place(writer *t, const kvsi_igsm_parameter *p)
{
    if (t->words->mode == KVSI_IGSM_PAPER)
        put(t, kvsi_igsm_first_name(t->words) + (size_t)p->place);
    else
        put_name(t, p->place);
}

/* The name of a quantity. */
static void put_phrase(writer *t, const kvsi_igsm_parameter *p)
{
    if (t->words->wording == KVSI_IGSM_COMPACT) {
        put_place(t, p);
        put_thing(t, p);
        return;
    }
    put_thing(t, p);
    PUT(t, W_WITHIN, W_EVERY);
    put_place(t, p);
}

/* The name at the start of a step; mode official omits what is redundant. */
static void put_defined(writer *t, const kvsi_igsm_parameter *p)
{
    if (t->words->mode == KVSI_IGSM_PAPER) {
        put_phrase(t, p);
        return;
    }
    put_place(t, p);
    put_thing(t, p);
}

/* Repeats what is counted; in mode official the start of the sentence is enough. */
static void put_stem(writer *t)
{
    if (t->words->mode == KVSI_IGSM_PAPER)
        PUT(t, W_THE, W_TALLY, W_OF);
}

/* ---- sentences ------------------------------------------------------------------------------- */

static const kvsi_igsm_parameter *source(const writer *t, const kvsi_igsm_parameter *p, size_t i)
{
    return &t->problem->parameters[p->sources[i]];
}

/* Sources from `first` on, with `between` between them and `last` before the last one. */
static void put_list(writer *t, const kvsi_igsm_parameter *p, size_t first, size_t between,
                     size_t last)
{
    for (size_t i = first; i < p->source_count; i++) {
        if (i > first)
            put(t, i + 1 == p->source_count ? last : between);
        put_phrase(t, source(t, p, i));
    }
}

static void put_rest(writer *t, const kvsi_igsm_parameter *p)
{
    if (p->source_count == 1) {
        put_stem(t);
        put_phrase(t, source(t, p, 0));
    } else if (p->operation == KVSI_IGSM_DIFFERENCE) {
        PUT(t, W_THE, W_GAP, W_BETWEEN);
        put_stem(t);
        put_phrase(t, source(t, p, 0));
        put(t, W_AND);
        if (t->words->mode == KVSI_IGSM_PAPER)
            PUT(t, W_THE, W_TOTAL, W_OF);
        put_list(t, p, 1, W_COMMA, W_COMMA);
    } else if (p->operation == KVSI_IGSM_PRODUCT) {
        PUT(t, W_THE, W_PRODUCT, W_OF);
        put_stem(t);
        put_list(t, p, 0, W_AND, W_AND);
    } else {
        PUT(t, W_THE, W_TOTAL, W_OF);
        put_stem(t);
        put_list(t, p, 0, W_COMMA, W_AND);
    }
}

static void write_full(writer *t, const kvsi_igsm_parameter *p)
{
    PUT(t, W_THE, W_TALLY, W_OF);
    put_phrase(t, p);
    put(t, W_EQUALS);
    if (p->source_count == 0 || p->joined != KVSI_IGSM_NOTHING)
        put_number(t, p->constant);
    if (p->source_count > 0 && p->joined == KVSI_IGSM_SUM)
        PUT(t, W_ADDED, W_TO);
    if (p->source_count > 0 && p->joined == KVSI_IGSM_DIFFERENCE)
        PUT(t, W_TAKEN, W_FROM);
    if (p->source_count > 0 && p->joined == KVSI_IGSM_PRODUCT)
        put(t, W_TIMES);
    if (p->source_count > 0)
        put_rest(t, p);
    put(t, W_POINT);
}

static size_t sign_of(kvsi_igsm_operation operation)
{
    return operation == KVSI_IGSM_SUM          ? W_PLUS
           : operation == KVSI_IGSM_DIFFERENCE ? W_MINUS
                                               : W_TIMES_SIGN;
}

/* HARBOUR NETS = 5 + HARBOUR OARS .    HARBOUR NETS = - A B , C D . */
static void write_compact(writer *t, const kvsi_igsm_parameter *p)
{
    put_phrase(t, p);
    put(t, W_EQUAL);
    if (p->source_count <= 1)
        put_number(t, p->constant);
    if (p->source_count == 1)
        put(t, sign_of(p->joined));
    else if (p->source_count > 1)
        put(t, sign_of(p->operation));
    put_list(t, p, 0, W_COMMA, W_COMMA);
    put(t, W_POINT);
}

static void write_question(writer *t)
{
    const kvsi_igsm_parameter *p = &t->problem->parameters[t->problem->asked];

    if (t->words->wording == KVSI_IGSM_COMPACT) {
        put_phrase(t, p);
        put(t, W_QUESTION);
        return;
    }
    put(t, W_WHAT);
    put_thing(t, p);
    PUT(t, W_TALLY, W_HAS, W_EVERY);
    put_place(t, p);
    put(t, W_QUESTION);
}

/* ---- steps of a solution --------------------------------------------------------------------- */

static size_t name_value(writer *t, kvsi_igsm_letters *l)
{
    const int letter = l->choose(l->user, t->out->count, l->used);

    l->used[letter] = 1;
    put_letter(t, (size_t)letter);
    return (size_t)letter;
}

/* Mode paper: the values.  5 - ( 3 + 4 ) = 21 */
static void put_numbers(writer *t, const kvsi_igsm_parameter *p)
{
    const kvsi_igsm_operation op = p->source_count > 1 ? p->operation : p->joined;
    const size_t count = p->source_count + (p->joined != KVSI_IGSM_NOTHING);

    for (size_t i = 0; i < count; i++) {
        const int number = i < p->source_count ? source(t, p, i)->value : p->constant;

        if (i > 0)
            put(t, op == KVSI_IGSM_DIFFERENCE && i > 1 ? W_PLUS : sign_of(op));
        if (i == 1 && op == KVSI_IGSM_DIFFERENCE)
            put(t, W_OPEN);
        put_number(t, number);
    }
    if (op == KVSI_IGSM_DIFFERENCE && count > 1)
        put(t, W_CLOSE);
}

static void write_paper_step(writer *t, size_t index, kvsi_igsm_letters *l)
{
    const kvsi_igsm_parameter *p = &t->problem->parameters[index];
    size_t letter;

    if (t->words->wording == KVSI_IGSM_FULL)
        put(t, W_LET);
    put_phrase(t, p);
    if (t->words->wording == KVSI_IGSM_FULL)
        put(t, W_BE);
    letter = name_value(t, l);
    if (t->words->wording == KVSI_IGSM_FULL) {
        PUT(t, W_COMMA, W_THEN);
        put_letter(t, letter);
    }
    put(t, W_EQUAL);
    if (p->source_count > 0) {
        put_numbers(t, p);
        put(t, W_EQUAL);
    }
    put_number(t, p->value);
    put(t, W_POINT);
}

/* A value in a step: a letter, or (letter < 0) a constant of the sentence. */
typedef struct value {
    int letter, number;
} value;

static void put_value(writer *t, value v)
{
    if (v.letter < 0)
        put_number(t, v.number);
    else
        put_letter(t, (size_t)v.letter);
}

static int compute(kvsi_igsm_operation operation, int a, int b)
{
    const int result = operation == KVSI_IGSM_SUM          ? a + b
                       : operation == KVSI_IGSM_DIFFERENCE ? a - b + KVSI_IGSM_MODULUS
                                                           : a * b;

    return result % KVSI_IGSM_MODULUS;
}

/* x = a + b = 3 + 4 = 7, where x is a new letter or (last) the step's own letter. */
static value put_binary(writer *t, kvsi_igsm_operation operation, value a, value b, int last,
                        size_t own, kvsi_igsm_letters *l)
{
    value made = {.letter = (int)own, .number = compute(operation, a.number, b.number)};

    if (last) {
        put(t, W_THEN);
        put_letter(t, own);
    } else {
        made.letter = (int)name_value(t, l);
    }
    put(t, W_EQUAL);
    put_value(t, a);
    put(t, sign_of(operation));
    put_value(t, b);
    put(t, W_EQUAL);
    put_number(t, a.number);
    put(t, sign_of(operation));
    put_number(t, b.number);
    put(t, W_EQUAL);
    put_number(t, made.number);
    put(t, last ? W_POINT : W_SEMICOLON);
    return made;
}

static value source_value(const writer *t, const kvsi_igsm_parameter *p, size_t i,
                          const kvsi_igsm_letters *l)
{
    return (value){.letter = l->of[p->sources[i]], .number = source(t, p, i)->value};
}

/* A single value: then x = a = 5 . */
static void put_alone(writer *t, value v, size_t own)
{
    put(t, W_THEN);
    put_letter(t, own);
    put(t, W_EQUAL);
    if (v.letter >= 0) {
        put_letter(t, (size_t)v.letter);
        put(t, W_EQUAL);
    }
    put_number(t, v.number);
    put(t, W_POINT);
}

/* Mode official: one binary operation at a time, sums from the left; intermediate values get their
 * own letters. */
static void write_official_step(writer *t, size_t index, kvsi_igsm_letters *l)
{
    const kvsi_igsm_parameter *p = &t->problem->parameters[index];
    const int has_constant = p->joined != KVSI_IGSM_NOTHING;
    const int pairs = p->operation == KVSI_IGSM_PAIRS;
    const size_t terms = pairs ? p->source_count / 2 : p->source_count;
    value sum = {.letter = -1, .number = p->constant};
    size_t own;

    put(t, W_LET);
    put_defined(t, p);
    put(t, W_BE);
    own = name_value(t, l);
    put(t, W_COMMA);
    for (size_t i = 0; i < terms; i++) {
        const int ends = i + 1 == terms && !has_constant;
        value term;

        if (pairs)
            term = put_binary(t, KVSI_IGSM_PRODUCT, source_value(t, p, 2 * i, l),
                              source_value(t, p, 2 * i + 1, l), terms == 1, own, l);
        else
            term = source_value(t, p, i, l);
        sum = i == 0 ? term
                     : put_binary(t, pairs ? KVSI_IGSM_SUM : p->operation, sum, term, ends, own, l);
    }
    if (has_constant)
        put_binary(t, p->joined, (value){.letter = -1, .number = p->constant}, sum, 1, own, l);
    else if (p->source_count <= 1)
        put_alone(t, sum, own);
    l->of[index] = (uint8_t)own;
}

void kvsi_igsm_write_step(kvsi_igsm_text *out, const kvsi_igsm_words *w,
                          const kvsi_igsm_problem *problem, size_t parameter,
                          kvsi_igsm_letters *letters)
{
    writer t = {out, w, problem};

    if (w->mode == KVSI_IGSM_PAPER)
        write_paper_step(&t, parameter, letters);
    else
        write_official_step(&t, parameter, letters);
}

/* ---- a problem with its solution ------------------------------------------------------------- */

/* The next free letter. */
static int choose_next(void *user, size_t position, const uint8_t used[KVSI_IGSM_LETTERS])
{
    int letter = 0;

    (void)user;
    (void)position;
    while (letter < KVSI_IGSM_LETTERS - 1 && used[letter])
        letter++;
    return letter;
}

/* A random free letter. */
static int choose_any(void *user, size_t position, const uint8_t used[KVSI_IGSM_LETTERS])
{
    kvsi_random *random = user;
    uint32_t left = 0, wanted;
    int letter = 0;

    for (size_t i = 0; i < KVSI_IGSM_LETTERS; i++)
        left += !used[i];
    if (left == 0)
        return choose_next(NULL, position, used);
    wanted = kvsi_random_below(random, left);
    for (; used[letter] || wanted > 0; letter++)
        wanted -= !used[letter];
    return letter;
}

static void write_solution(writer *t)
{
    const kvsi_igsm_problem *p = t->problem;
    kvsi_igsm_letters letters = {.choose = choose_next};
    kvsi_random random;

    kvsi_random_init(&random, p->letters_seed, KVSI_RANDOM_DATA, 0);
    if (t->words->mode == KVSI_IGSM_OFFICIAL) {
        letters.choose = choose_any;
        letters.user = &random;
    }
    for (size_t i = 0; i < p->solved_count; i++) {
        if (i > 0)
            put(t, W_LINE);
        kvsi_igsm_write_step(t->out, t->words, p, p->solved[i], &letters);
        if (p->solved[i] == p->asked)
            t->out->answer = t->out->count - 2; /* before the point */
    }
    if (t->words->mode == KVSI_IGSM_OFFICIAL) {
        PUT(t, W_LINE, W_ANSWER);
        t->out->answer = t->out->count;
        put_number(t, p->parameters[p->asked].value);
    }
    put(t, W_END);
}

void kvsi_igsm_write(kvsi_igsm_text *out, const kvsi_igsm_words *w,
                     const kvsi_igsm_problem *problem)
{
    writer t = {out, w, problem};

    out->count = 0;
    out->overflow = 0;
    for (size_t i = 0; i < problem->stated_count; i++) {
        const kvsi_igsm_parameter *p = &problem->parameters[problem->stated[i]];

        if (w->wording == KVSI_IGSM_COMPACT)
            write_compact(&t, p);
        else
            write_full(&t, p);
    }
    write_question(&t);
    put(&t, W_LINE);
    out->problem_count = out->count;
    write_solution(&t);
}

/* ---- reading --------------------------------------------------------------------------------- */

int kvsi_igsm_read_parameter(const kvsi_igsm_words *w, const kvsi_igsm_problem *problem,
                             const uint16_t *line, size_t count)
{
    const size_t skip = w->wording == KVSI_IGSM_FULL; /* "let" */

    for (size_t i = 0; i < problem->count; i++) {
        kvsi_igsm_text phrase = {.count = 0};
        writer t = {&phrase, w, problem};

        put_defined(&t, &problem->parameters[i]);
        if (count >= skip + phrase.count &&
            memcmp(line + skip, phrase.words, phrase.count * sizeof *line) == 0)
            return (int)i;
    }
    return -1;
}
