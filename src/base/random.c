#include "base/random.h"

#include <Random123/philox.h>
#include <math.h>

void kvsi_random_init(kvsi_random *random, uint64_t seed, kvsi_purpose purpose, uint64_t index)
{
    *random = (kvsi_random){.seed = seed, .index = index, .purpose = (uint32_t)purpose, .used = 4};
}

void kvsi_random_words(uint32_t words[4], uint64_t seed, uint32_t purpose, uint64_t index,
                       uint32_t block)
{
    const philox4x32_ctr_t counter = {{block, purpose, (uint32_t)index, (uint32_t)(index >> 32)}};
    const philox4x32_key_t key = {{(uint32_t)seed, (uint32_t)(seed >> 32)}};
    const philox4x32_ctr_t out = philox4x32(counter, key);

    for (int i = 0; i < 4; i++)
        words[i] = out.v[i];
}

static void next_block(kvsi_random *r)
{
    kvsi_random_words(r->words, r->seed, r->purpose, r->index, r->block++);
    r->used = 0;
}

uint32_t kvsi_random_word(kvsi_random *random)
{
    if (random->used == 4)
        next_block(random);
    return random->words[random->used++];
}

double kvsi_random_uniform(kvsi_random *random)
{
    const uint64_t high = kvsi_random_word(random) >> 5, low = kvsi_random_word(random) >> 6;

    return (double)(high << 26 | low) * 0x1p-53;
}

/* Multiply-shift; words that would cause a bias are drawn again. */
uint32_t kvsi_random_below(kvsi_random *random, uint32_t bound)
{
    const uint32_t unfair = -bound % bound;
    uint64_t product;

    do
        product = (uint64_t)kvsi_random_word(random) * bound;
    while ((uint32_t)product < unfair);
    return (uint32_t)(product >> 32);
}

/* Box-Muller; the second value of the pair is dropped, so that a draw never depends on an earlier
 * one. */
double kvsi_random_normal(kvsi_random *random)
{
    const double radius = sqrt(-2.0 * log(1.0 - kvsi_random_uniform(random)));

    return radius * cos(6.283185307179586477 * kvsi_random_uniform(random));
}

void kvsi_random_skip(kvsi_random *random, uint32_t block)
{
    random->block = block;
    random->used = 4;
}

uint64_t kvsi_hash_text(const char *text)
{
    uint64_t hash = UINT64_C(14695981039346656037);

    for (; *text; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return hash;
}
