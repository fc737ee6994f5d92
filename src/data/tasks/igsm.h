/* data/tasks/igsm.h - problems of arithmetic modulo 23, and how they are told.
 *
 * A problem is a graph of parameters: each has a name (a thing and where it is), the parameters
 * that its value comes from, and how.  generators make graphs (igsm_paper.c, igsm_official.c), the
 * words (igsm_words.c) tell a problem and its solution, the grader (igsm_grade.c) reads solutions
 * that a model wrote.  Nothing is allocated: a graph has a fixed size. */
#ifndef KVSI_DATA_TASKS_IGSM_H
#define KVSI_DATA_TASKS_IGSM_H

#include "base/random.h"
#include "base/status.h"

enum {
    KVSI_IGSM_MODULUS = 23,
    KVSI_IGSM_PARAMETERS_MAX = 128,
    KVSI_IGSM_SOURCES_MAX = 8,
    KVSI_IGSM_WORDS_MAX = 4096, /* of a problem with its solution */
    KVSI_IGSM_LETTERS = 52,     /* names of values: a .. z, A .. Z */
};

/* ---- graphs ---------------------------------------------------------------------------------- */

/* How the sources of a value are put together; `nothing` of them is left out. */
typedef enum kvsi_igsm_operation {
    KVSI_IGSM_NOTHING,
    KVSI_IGSM_SUM,        /* of one source: itself */
    KVSI_IGSM_DIFFERENCE, /* the first less the sum of the others */
    KVSI_IGSM_PRODUCT,
    KVSI_IGSM_PAIRS, /* the sum of products of two sources each */
} kvsi_igsm_operation;

typedef struct kvsi_igsm_parameter {
    int16_t thing, place; /* names, in the vocabulary's terms */
    int is_abstract;      /* follows from what things are: has no sentence of its own */
    uint8_t sources[KVSI_IGSM_SOURCES_MAX];
    size_t source_count;
    kvsi_igsm_operation operation; /* of the sources */
    kvsi_igsm_operation joined;    /* the constant with the result of that: sum, difference (the
                                      result less the constant), product; nothing = no constant.
                                      Without sources the constant is the value */
    int constant, value;
} kvsi_igsm_parameter;

typedef struct kvsi_igsm_problem {
    kvsi_igsm_parameter parameters[KVSI_IGSM_PARAMETERS_MAX];
    size_t count;
    uint8_t told[KVSI_IGSM_PARAMETERS_MAX]; /* those with a sentence, in the order of these */
    size_t told_count;
    uint8_t solved[KVSI_IGSM_PARAMETERS_MAX]; /* those of the solution, in its order */
    size_t solved_count;
    size_t asked;
    size_t operations;
    uint64_t letters_seed; /* which letters the solution takes */
    size_t layers;         /* of the official structure */
} kvsi_igsm_problem;

/* Draws until there is one; `random` goes on. */
void kvsi_igsm_draw_paper(kvsi_igsm_problem *out, const kvs_igsm_config *config,
                          kvsi_random *random);
/* `split` 0 = for training, 1 = for tests: problems whose solutions have the same form are on the
 * same side. */
void kvsi_igsm_draw_official(kvsi_igsm_problem *out, const kvs_igsm_config *config, int split,
                             kvsi_random *random);

/* The value, once those of its sources are known. */
int kvsi_igsm_evaluate(const kvsi_igsm_problem *problem, const kvsi_igsm_parameter *p);
/* Elements 0 .. count-1 in random order. */
void kvsi_igsm_shuffle(uint8_t *list, size_t count, kvsi_random *random);
/* Parameters from which the asked one follows, itself included. */
size_t kvsi_igsm_needed(uint8_t needed[KVSI_IGSM_PARAMETERS_MAX], const kvsi_igsm_problem *problem);

/* ---- names for the official structure -------------------------------------------------------- */

enum {
    KVSI_IGSM_CHAINS = 4,     /* of categories, */
    KVSI_IGSM_CATEGORIES = 4, /* each of so many, one inside the other; */
    KVSI_IGSM_LISTS = 5,      /* a category has so many lists */
    KVSI_IGSM_NAMES = 16,     /* of so many names */
};

/* The numbers of a name and of a category among all, as kvsi_igsm_parameter has them. */
int16_t kvsi_igsm_name(size_t chain, size_t category, size_t list, size_t name);
int16_t kvsi_igsm_category(size_t chain, size_t category);

/* ---- words ----------------------------------------------------------------------------------- */

typedef struct kvsi_igsm_words {
    kvs_igsm_mode mode;
    kvs_igsm_wording wording;
    size_t count;
} kvsi_igsm_words;

void kvsi_igsm_words_init(kvsi_igsm_words *words, const kvs_igsm_config *config);
/* A word as it stands in a text, with the space that goes before it. */
void kvsi_igsm_word_text(const kvsi_igsm_words *words, size_t word, char *out, size_t size);
/* Its number; -1 = there is no such word. */
int kvsi_igsm_word_find(const kvsi_igsm_words *words, const char *text);

/* Words of a problem or of a solution. */
typedef struct kvsi_igsm_told {
    uint16_t words[KVSI_IGSM_WORDS_MAX];
    size_t count;
    size_t problem_count; /* of these the problem's, up to and with the line's end */
    size_t answer;        /* which of them is the number asked for */
    int overflow;         /* there would be more */
} kvsi_igsm_told;

void kvsi_igsm_tell(kvsi_igsm_told *out, const kvsi_igsm_words *words,
                    const kvsi_igsm_problem *problem);

/* How one step of a solution is written: `choose` gives the letter of each value that is named. */
typedef struct kvsi_igsm_letters {
    int (*choose)(void *user, size_t position, const uint8_t used[KVSI_IGSM_LETTERS]);
    void *user;
    uint8_t used[KVSI_IGSM_LETTERS];
    uint8_t of[KVSI_IGSM_PARAMETERS_MAX]; /* letters of parameters */
} kvsi_igsm_letters;

void kvsi_igsm_tell_step(kvsi_igsm_told *out, const kvsi_igsm_words *words,
                         const kvsi_igsm_problem *problem, size_t parameter,
                         kvsi_igsm_letters *letters);

/* Reading: a line's parameter (-1 = none), a word's number (-1 = it is none) and letter. */
int kvsi_igsm_read_parameter(const kvsi_igsm_words *words, const kvsi_igsm_problem *problem,
                             const uint16_t *line, size_t count);
int kvsi_igsm_read_number(const kvsi_igsm_words *words, uint16_t word);
int kvsi_igsm_read_letter(const kvsi_igsm_words *words, uint16_t word);

enum { KVSI_IGSM_END, KVSI_IGSM_LINE, KVSI_IGSM_ANSWER }; /* words that every vocabulary has */

/* ---- grading --------------------------------------------------------------------------------- */

/* `written` are the words that come after the problem, without the end's. */
void kvsi_igsm_grade(kvs_igsm_grade *out, const kvsi_igsm_words *words,
                     const kvsi_igsm_problem *problem, const uint16_t *written, size_t count,
                     int ended);

#endif
