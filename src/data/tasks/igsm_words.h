/* data/tasks/igsm_words.h - the vocabulary, shared by igsm_text.c and igsm_words.c. */
#ifndef KVSI_DATA_TASKS_IGSM_WORDS_H
#define KVSI_DATA_TASKS_IGSM_WORDS_H

#include "data/tasks/igsm.h"

enum { KVSI_IGSM_PLACES = 4, KVSI_IGSM_THINGS = 10 }; /* mode paper: things per place */

/* The words of sentences; the first three are public in igsm.h. */
enum {
    W_END = KVSI_IGSM_END,
    W_LINE = KVSI_IGSM_LINE,
    W_ANSWER = KVSI_IGSM_ANSWER,
    W_POINT,
    W_COMMA,
    W_SEMICOLON,
    W_QUESTION,
    W_EQUAL,
    W_PLUS,
    W_MINUS,
    W_TIMES_SIGN,
    W_OPEN,
    W_CLOSE,
    W_COMMON, /* the compact vocabulary continues here with its numbers */
    W_THE = W_COMMON,
    W_TALLY,
    W_OF,
    W_WITHIN,
    W_EVERY,
    W_EQUALS,
    W_ADDED,
    W_TO,
    W_TAKEN,
    W_FROM,
    W_TIMES,
    W_TOTAL,
    W_GAP,
    W_BETWEEN,
    W_AND,
    W_PRODUCT,
    W_WHAT,
    W_HAS,
    W_LET,
    W_BE,
    W_THEN,
    W_SENTENCE_WORDS,
};

enum {
    KVSI_IGSM_OFFICIAL_CATEGORIES = KVSI_IGSM_CHAINS * KVSI_IGSM_CATEGORIES,
    KVSI_IGSM_OFFICIAL_NOUNS = KVSI_IGSM_OFFICIAL_CATEGORIES * KVSI_IGSM_LISTS,
    KVSI_IGSM_OFFICIAL_QUALITIES = KVSI_IGSM_CATEGORIES * KVSI_IGSM_NAMES,
    KVSI_IGSM_OFFICIAL_NAMES = KVSI_IGSM_OFFICIAL_NOUNS * KVSI_IGSM_NAMES,
};

/* The first number, letter and name. */
size_t kvsi_igsm_first_number(const kvsi_igsm_words *w);
size_t kvsi_igsm_first_letter(const kvsi_igsm_words *w);
size_t kvsi_igsm_first_name(const kvsi_igsm_words *w);

#endif
