#include "data/shuffle.h"

#include "base/random.h"

enum { ROUNDS = 6 };

/* Half the number of bits of count-1, rounded up: the network's domain is smaller than 4 *
 * count. */
static unsigned half_bits(uint64_t count)
{
    unsigned bits = 0;

    while (bits < 64 && (count - 1) >> bits != 0)
        bits++;
    return (bits + 1) / 2;
}

static uint64_t pass_network(uint64_t seed, uint64_t epoch, unsigned half, uint64_t number)
{
    const uint64_t mask = (UINT64_C(1) << half) - 1;
    uint64_t left = number >> half, right = number & mask;

    for (uint64_t round = 0; round < ROUNDS; round++) {
        uint32_t words[4];
        uint64_t mixed;

        kvsi_random_words(words, seed, KVSI_RANDOM_DATA, epoch * ROUNDS + round, (uint32_t)right);
        mixed = (left ^ words[0]) & mask;
        left = right;
        right = mixed;
    }
    return left << half | right;
}

uint64_t kvsi_shuffle(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position)
{
    const unsigned half = half_bits(count);
    uint64_t number = position;

    if (count < 2)
        return 0;
    do
        number = pass_network(seed, epoch, half, number);
    while (number >= count);
    return number;
}
