/* train/moments.h - the optimizer's moments in a file: whole, in the order of the layout, for any
 * number of ranks and any sharding.
 *
 *     optimizer.safetensors   mean [parameters], square [parameters]
 */
#ifndef KVSI_TRAIN_MOMENTS_H
#define KVSI_TRAIN_MOMENTS_H

#include "formats/safetensors.h"
#include "train/checkpoint.h"

/* Collective.  Rank 0 writes; the others pass NULL as path. */
kvs_status kvsi_moments_write(const char *path, const kvsi_training_state *state, kvs_err *err);

/* Fails if the file does not have the moments of this model. */
kvs_status kvsi_moments_check(const kvsi_safetensors *file, const kvsi_training_state *state,
                              const char *path, kvs_err *err);
/* Collective.  Rank 0 passes the file, which was checked; the others pass NULL. */
kvs_status kvsi_moments_read(const kvsi_training_state *state, const kvsi_safetensors *file,
                             kvs_err *err);

#endif
