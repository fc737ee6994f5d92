/* train/moments.h - the optimizer's moments in a file, whole and in the order of the block,
 * whatever ranks have of them.
 *
 *     optimizer.safetensors   mean [parameters], square [parameters]
 */
#ifndef KVSI_TRAIN_MOMENTS_H
#define KVSI_TRAIN_MOMENTS_H

#include "formats/safetensors.h"
#include "train/checkpoint.h"

/* All ranks together; the first writes, the others give no path. */
kvs_status kvsi_moments_write(const char *path, const kvsi_training_state *state, kvs_err *err);

/* Whether a file has them. */
kvs_status kvsi_moments_check(const kvsi_safetensors *file, const kvsi_training_state *state,
                              const char *path, kvs_err *err);
/* All ranks together; the first has the file, which was checked, the others give none. */
kvs_status kvsi_moments_read(const kvsi_training_state *state, const kvsi_safetensors *file,
                             kvs_err *err);

#endif
