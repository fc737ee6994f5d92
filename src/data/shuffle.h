/* data/shuffle.h - a new order for every epoch, without a table.
 *
 * A Feistel network is a bijection on 2h-bit numbers for any round function; this one uses the
 * random generator keyed by seed and epoch.  Results that are too large are mapped again until one
 * is in range (cycle walking), which gives a bijection on 0 .. count-1. */
#ifndef KVSI_DATA_SHUFFLE_H
#define KVSI_DATA_SHUFFLE_H

#include <stdint.h>

/* The item at `position` (< count) of the epoch. */
uint64_t kvsi_shuffle(uint64_t seed, uint64_t epoch, uint64_t count, uint64_t position);

#endif
