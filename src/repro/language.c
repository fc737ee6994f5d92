/* A synthetic language, to test language models without text files.
 *
 * Words are made of syllables.  Each word has a few words that often follow it (bigrams).  Each
 * story has a few names, and each name is always followed by the same epithet, which a model can
 * predict only by looking back, as induction heads do. */
#include "base/random.h"
#include "repro/texts.h"

#include <ctype.h>
#include <stdio.h>

enum { WORDS = 160, FOLLOWERS = 5, NAMES = 5, SENTENCES = 24, WORD_SIZE = 16 };

typedef struct language {
    char words[WORDS][WORD_SIZE];
    unsigned followers[WORDS][FOLLOWERS];
} language;

static void make_word(char *out, kvsi_random *random, int syllables)
{
    static const char *const onsets[] = {"b", "d", "f", "g",  "k",  "l",  "m", "n",
                                         "p", "r", "s", "st", "tr", "sh", "v", ""};
    static const char *const ends[] = {"a", "e", "i", "o", "u", "an", "el", "or", "is", "un"};
    size_t length = 0;

    for (int i = 0; i < syllables; i++)
        length += (size_t)snprintf(out + length, WORD_SIZE - length, "%s%s",
                                   onsets[kvsi_random_below(random, 16)],
                                   ends[kvsi_random_below(random, 10)]);
}

static void make_words(language *l, uint64_t seed)
{
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_LANGUAGE, 0);
    for (unsigned w = 0; w < WORDS; w++) {
        make_word(l->words[w], &random, 1 + (int)kvsi_random_below(&random, 2));
        for (unsigned i = 0; i < FOLLOWERS; i++)
            l->followers[w][i] = kvsi_random_below(&random, WORDS);
    }
}

/* Usually a follower, most often the first; with probability 0.15 any word. */
static unsigned next_word(const language *l, kvsi_random *random, unsigned word)
{
    const double chance = kvsi_random_uniform(random);

    if (chance < 0.15)
        return kvsi_random_below(random, WORDS);
    return l->followers[word][(unsigned)(FOLLOWERS * (chance - 0.15) * (chance - 0.15) / 0.7226)];
}

static void write_story(kvsi_text *out, const language *l, uint64_t seed, uint64_t number)
{
    char names[NAMES][WORD_SIZE];
    unsigned epithets[NAMES], word = 0;
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_LANGUAGE, number);
    for (int i = 0; i < NAMES; i++) {
        make_word(names[i], &random, 3);
        names[i][0] = (char)toupper((unsigned char)names[i][0]);
        epithets[i] = kvsi_random_below(&random, WORDS);
    }
    for (int s = 0; s < SENTENCES; s++) {
        const unsigned length = 3 + kvsi_random_below(&random, 5),
                       who = kvsi_random_below(&random, NAMES);

        for (unsigned i = 0; i < length; i++)
            kvsi_text_format(out, "%s ", l->words[word = next_word(l, &random, word)]);
        kvsi_text_format(out, "%s %s.\n", names[who], l->words[epithets[who]]);
    }
}

void kvsi_make_language(kvsi_text *out, size_t size, uint64_t seed)
{
    language l;

    make_words(&l, seed);
    for (uint64_t story = 1; !out->failed && out->length < size; story++) {
        write_story(out, &l, seed, story);
        kvsi_text_add(out, "<|endoftext|>\n");
    }
}
