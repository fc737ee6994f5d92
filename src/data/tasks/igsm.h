/* data/tasks/igsm.h - arithmetic problems modulo 23, and their text.
 *
 * A problem is a graph of parameters: each has a name (a thing and its place), the parameters that
 * its value is computed from, and the operation.  Generators draw graphs (igsm_paper.c,
 * igsm_official.c), igsm_text.c writes a problem and its solution in words of the vocabulary
 * (igsm_words.c), and igsm_grade.c grades solutions written by a model.  Graphs have a fixed size;
 * nothing is allocated. */
#ifndef KVSI_DATA_TASKS_IGSM_H
#define KVSI_DATA_TASKS_IGSM_H

#include "base/random.h"
#include "config/config.h"
#include "kvshift/kvshift_lab.h"

enum {
    KVSI_IGSM_MODULUS = 23,
    KVSI_IGSM_PARAMETERS_MAX = 128,
    KVSI_IGSM_SOURCES_MAX = 8,
    KVSI_IGSM_WORDS_MAX = 4096, /* words of a problem with its solution */
    KVSI_IGSM_LETTERS = 52,     /* names of values: a .. z, A .. Z */
};

/* ---- graphs ---------------------------------------------------------------------------------- */

/* How the sources of a value are combined. */
typedef enum kvsi_igsm_operation {
    KVSI_IGSM_NOTHING,
    KVSI_IGSM_SUM,        /* of one source: its value */
    KVSI_IGSM_DIFFERENCE, /* the first minus the sum of the others */
    KVSI_IGSM_PRODUCT,
    KVSI_IGSM_PAIRS, /* the sum of products of pairs of sources */
} kvsi_igsm_operation;

typedef struct kvsi_igsm_parameter {
    int16_t thing, place; /* names, see kvsi_igsm_name */
    int is_abstract;      /* follows from the structure: has no sentence */
    uint8_t sources[KVSI_IGSM_SOURCES_MAX];
    size_t source_count;
    /* `operation` combines the sources, then `joined` that result with the constant: sum,
     * difference (result minus constant) or product; NOTHING = no constant.  Without sources the
     * constant is the value. */
    kvsi_igsm_operation operation, joined;
    int constant, value;
} kvsi_igsm_parameter;

typedef struct kvsi_igsm_problem {
    kvsi_igsm_parameter parameters[KVSI_IGSM_PARAMETERS_MAX];
    size_t count;
    uint8_t stated[KVSI_IGSM_PARAMETERS_MAX]; /* those with a sentence, in text order */
    size_t stated_count;
    uint8_t solved[KVSI_IGSM_PARAMETERS_MAX]; /* those in the solution, in order */
    size_t solved_count;
    size_t asked;
    size_t operations;
    uint64_t letters_seed; /* selects the letters of the solution */
    size_t layers;         /* of the official structure */
} kvsi_igsm_problem;

/* Draws until a problem fits; advances `random`. */
void kvsi_igsm_draw_paper(kvsi_igsm_problem *out, const kvsi_igsm_config *config,
                          kvsi_random *random);
/* `split` 0 = training, 1 = test: problems whose solutions have the same form are in the same
 * split. */
void kvsi_igsm_draw_official(kvsi_igsm_problem *out, const kvsi_igsm_config *config, int split,
                             kvsi_random *random);

/* The value of p; the values of its sources must be known. */
int kvsi_igsm_evaluate(const kvsi_igsm_problem *problem, const kvsi_igsm_parameter *p);
/* Fills the list with 0 .. count-1 in random order. */
void kvsi_igsm_shuffle(uint8_t *list, size_t count, kvsi_random *random);
/* Marks the parameters that the asked one depends on, itself included, and returns their number. */
size_t kvsi_igsm_needed(uint8_t needed[KVSI_IGSM_PARAMETERS_MAX], const kvsi_igsm_problem *problem);

/* ---- names for the official structure -------------------------------------------------------- */

enum {
    KVSI_IGSM_CHAINS = 4,     /* chains of categories */
    KVSI_IGSM_CATEGORIES = 4, /* categories per chain, nested */
    KVSI_IGSM_LISTS = 5,      /* lists of names per category */
    KVSI_IGSM_NAMES = 16,     /* names per list */
};

/* The index of a name or category, as in kvsi_igsm_parameter. */
int16_t kvsi_igsm_name(size_t chain, size_t category, size_t list, size_t name);
int16_t kvsi_igsm_category(size_t chain, size_t category);

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct kvsi_igsm_words {
    kvsi_igsm_mode mode;
    kvsi_igsm_wording wording;
    size_t count;
} kvsi_igsm_words;

void kvsi_igsm_words_init(kvsi_igsm_words *words, const kvsi_igsm_config *config);
/* A word with its leading space. */
void kvsi_igsm_word_text(const kvsi_igsm_words *words, size_t word, char *out, size_t size);
/* The index of a word; -1 = none. */
int kvsi_igsm_word_find(const kvsi_igsm_words *words, const char *text);

/* The words of a problem or a solution. */
typedef struct kvsi_igsm_text {
    uint16_t words[KVSI_IGSM_WORDS_MAX];
    size_t count;
    size_t problem_count; /* words of the problem, including the end of the line */
    size_t answer;        /* index of the asked value */
    int overflow;         /* it has more than KVSI_IGSM_WORDS_MAX words */
} kvsi_igsm_text;

void kvsi_igsm_write(kvsi_igsm_text *out, const kvsi_igsm_words *words,
                     const kvsi_igsm_problem *problem);

/* `choose` gives the letter of each value that a step names. */
typedef struct kvsi_igsm_letters {
    int (*choose)(void *user, size_t position, const uint8_t used[KVSI_IGSM_LETTERS]);
    void *user;
    uint8_t used[KVSI_IGSM_LETTERS];
    uint8_t of[KVSI_IGSM_PARAMETERS_MAX]; /* letters of parameters */
} kvsi_igsm_letters;

void kvsi_igsm_write_step(kvsi_igsm_text *out, const kvsi_igsm_words *words,
                          const kvsi_igsm_problem *problem, size_t parameter,
                          kvsi_igsm_letters *letters);

/* Reading: the parameter of a line, the number of a word, the letter of a word; -1 = none. */
int kvsi_igsm_read_parameter(const kvsi_igsm_words *words, const kvsi_igsm_problem *problem,
                             const uint16_t *line, size_t count);
int kvsi_igsm_read_number(const kvsi_igsm_words *words, uint16_t word);
int kvsi_igsm_read_letter(const kvsi_igsm_words *words, uint16_t word);

enum { KVSI_IGSM_END, KVSI_IGSM_LINE, KVSI_IGSM_ANSWER }; /* words that every vocabulary has */

/* ---- grading --------------------------------------------------------------------------------- */

/* `written` are the words after the problem, without the end. */
void kvsi_igsm_grade(kvs_igsm_grade *out, const kvsi_igsm_words *words,
                     const kvsi_igsm_problem *problem, const uint16_t *written, size_t count,
                     int ended);

#endif
