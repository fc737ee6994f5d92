/* base/random.h - random numbers that depend only on (seed, purpose, index).
 *
 * A counter-based generator (Philox 4x32-10, from Random123): sequence number 17 of the training
 * data is the same whatever was drawn before, on any number of threads or machines. */
#ifndef KVSI_BASE_RANDOM_H
#define KVSI_BASE_RANDOM_H

#include <stdint.h>

typedef enum kvsi_purpose {
    KVSI_RANDOM_INIT = 1,      /* weights; index = hash of the tensor's name */
    KVSI_RANDOM_DATA = 2,      /* training data; index = number of the sequence */
    KVSI_RANDOM_EVAL = 3,      /* evaluation data; index = number of the sequence */
    KVSI_RANDOM_DROPOUT = 4,   /* of activations; index = kvsi_dropout.index, word = position */
    KVSI_RANDOM_ATTENTION = 5, /* of attention weights, + 8 * (row * heads + head), rows of
                                  the sequence; word = key */
    KVSI_RANDOM_SAMPLE = 6,    /* generated text; index = number of the token */
    KVSI_RANDOM_LANGUAGE = 7,  /* the synthetic language; index = number of the story */
    KVSI_RANDOM_RESAMPLE = 8,  /* bootstrap draws; index = number of the draw */
} kvsi_purpose;

typedef struct kvsi_random {
    uint64_t seed, index;
    uint32_t purpose, block; /* block = next counter value */
    uint32_t words[4];       /* the current block's output */
    unsigned used;           /* how many of them have been returned */
} kvsi_random;

void kvsi_random_init(kvsi_random *random, uint64_t seed, kvsi_purpose purpose, uint64_t index);

uint32_t kvsi_random_word(kvsi_random *random);
double kvsi_random_uniform(kvsi_random *random);                 /* [0, 1), 53 bits */
uint32_t kvsi_random_below(kvsi_random *random, uint32_t bound); /* 0 .. bound-1, no bias */
/* Mean 0, standard deviation 1.  Uses four words: draw number i of a new generator that draws
 * nothing else is the first one after kvsi_random_skip(random, i). */
double kvsi_random_normal(kvsi_random *random);
/* Continues at word 4 * block of the stream. */
void kvsi_random_skip(kvsi_random *random, uint32_t block);

/* Words 4 * block to 4 * block + 3 of a stream, without a generator. */
void kvsi_random_words(uint32_t words[4], uint64_t seed, uint32_t purpose, uint64_t index,
                       uint32_t block);

uint64_t kvsi_hash_text(const char *text); /* FNV-1a */

#endif
