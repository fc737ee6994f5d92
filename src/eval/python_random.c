#include "eval/python_random.h"

#include "base/memory.h"

enum { WORDS = 624, OFFSET = 397 };

/* ---- MT19937 (Matsumoto and Nishimura 1998, with the seeding of 2002) ------------------------ */

static void seed_word(uint32_t *state, uint32_t seed)
{
    state[0] = seed;
    for (uint32_t i = 1; i < WORDS; i++)
        state[i] = UINT32_C(1812433253) * (state[i - 1] ^ state[i - 1] >> 30) + i;
}

void kvsi_python_seed(kvsi_python_random *random, uint64_t seed)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const size_t length = key[1] ? 2 : 1;
    uint32_t *s = random->state;
    size_t at = 1, k = 0;

    seed_word(s, 19650218);
    for (size_t step = 0; step < WORDS; step++) {
        s[at] = (s[at] ^ (s[at - 1] ^ s[at - 1] >> 30) * UINT32_C(1664525)) + key[k] + (uint32_t)k;
        k = (k + 1) % length;
        if (++at == WORDS) {
            s[0] = s[WORDS - 1];
            at = 1;
        }
    }
    for (size_t step = 0; step < WORDS - 1; step++) {
        s[at] = (s[at] ^ (s[at - 1] ^ s[at - 1] >> 30) * UINT32_C(1566083941)) - (uint32_t)at;
        if (++at == WORDS) {
            s[0] = s[WORDS - 1];
            at = 1;
        }
    }
    s[0] = UINT32_C(0x80000000);
    random->next = WORDS;
}

static void make_words(uint32_t *s)
{
    for (size_t i = 0; i < WORDS; i++) {
        const uint32_t y = (s[i] & UINT32_C(0x80000000)) | (s[(i + 1) % WORDS] & 0x7fffffff);

        s[i] = s[(i + OFFSET) % WORDS] ^ y >> 1 ^ (y & 1 ? UINT32_C(0x9908b0df) : 0);
    }
}

static uint32_t next_word(kvsi_python_random *random)
{
    uint32_t y;

    if (random->next == WORDS) {
        make_words(random->state);
        random->next = 0;
    }
    y = random->state[random->next++];
    y ^= y >> 11;
    y ^= y << 7 & UINT32_C(0x9d2c5680);
    y ^= y << 15 & UINT32_C(0xefc60000);
    return y ^ y >> 18;
}

/* ---- what Python makes of its words ---------------------------------------------------------- */

double kvsi_python_uniform(kvsi_python_random *random)
{
    const uint32_t high = next_word(random) >> 5, low = next_word(random) >> 6;

    return (high * 67108864.0 + low) / 9007199254740992.0; /* (high 2^26 + low) / 2^53 */
}

uint32_t kvsi_python_below(kvsi_python_random *random, uint32_t n)
{
    unsigned bits = 0;
    uint32_t draw;

    if (n == 0)
        return 0;
    while (bits < 32 && n >> bits)
        bits++;
    do
        draw = next_word(random) >> (32 - bits);
    while (draw >= n);
    return draw;
}

/* Below this number of items Python copies and shuffles them; above it keeps a set of draws. */
static size_t copied_size(size_t k)
{
    size_t size = 21, power = 1;

    if (k <= 5)
        return size;
    while (power < 3 * k) /* 4^ceil(log4(3k)) */
        power *= 4;
    return size + power;
}

static void sample_shuffled(kvsi_python_random *random, size_t n, size_t k, size_t *pool,
                            size_t *out)
{
    for (size_t i = 0; i < n; i++)
        pool[i] = i;
    for (size_t i = 0; i < k; i++) {
        const size_t j = kvsi_python_below(random, (uint32_t)(n - i));

        out[i] = pool[j];
        pool[j] = pool[n - i - 1];
    }
}

static void sample_distinct(kvsi_python_random *random, size_t n, size_t k, size_t *taken,
                            size_t *out)
{
    for (size_t i = 0; i < k; i++) {
        size_t j;

        do
            j = kvsi_python_below(random, (uint32_t)n);
        while (taken[j / 64] >> j % 64 & 1);
        taken[j / 64] |= (size_t)1 << j % 64;
        out[i] = j;
    }
}

kvs_status kvsi_python_sample(kvsi_python_random *random, size_t n, size_t k, size_t *out,
                              kvs_err *err)
{
    const int copied = n <= copied_size(k);
    size_t *scratch; /* the items not drawn yet, or a bit for each item */

    if (k > n || n > UINT32_MAX)
        return kvsi_fail(err, KVS_E_INVALID, "cannot draw %zu of %zu items", k, n);
    scratch = kvsi_alloc(copied ? n : n / 64 + 1, sizeof *scratch);
    if (!scratch)
        return kvsi_no_memory(err, "a draw of %zu items", k);
    (copied ? sample_shuffled : sample_distinct)(random, n, k, scratch, out);
    kvsi_free(scratch);
    return KVS_OK;
}
