/* config/rotations.h - the angles of rotary positions, also scaled ones. */
#ifndef KVSI_CONFIG_ROTATIONS_H
#define KVSI_CONFIG_ROTATIONS_H

#include "config/config.h"

/* The change that the layers of one kind have: those with a sliding window may have their own base,
 * without scaling. */
kvsi_rope_scaling kvsi_rope_scaling_of(const kvs_model_config *config, int slides);

/* Sets frequency[rotary / 2] to the angles per position of the pairs; returns the factor of cosines
 * and sines. */
double kvsi_rope_frequencies(double *frequency, const kvs_model_config *config, size_t rotary,
                             int slides);

/* That factor. */
double kvsi_rope_vector_scale(const kvsi_rope_config *rope);

/* Checks the settings of the scaling; heads have `rotary` rotating channels. */
kvs_status kvsi_rope_check(const kvs_model_config *config, size_t rotary, kvs_err *err);

#endif
