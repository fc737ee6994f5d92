/* data/shuffle.h - a new order for every epoch, without a table.
 *
 * A Feistel network is a bijection of the numbers of 2h bits whatever its round function is; ours
 * is the random generator, keyed by seed and epoch.  Results that are too large are sent through
 * again until one fits (cycle walking), which makes it a bijection of 0 .. count-1. */
#ifndef KVSI_DATA_SHUFFLE_H
#define KVSI_DATA_SHUFFLE_H

#include <stdint.h>

/* What comes at `position` (< count) of the epoch. */
uint64_t kvsi_shuffle(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position);

#endif
