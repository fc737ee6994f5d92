/* infer/session_file.h - sessions in files: safetensors with
 *
 *     session          U8: a JSON text that says what the rest is and which model it belongs to
 *     ids              I32 [length]
 *     last             [dim] what left the last token
 *     layers.0.k  .v   [kv_heads, held, head_size] the cache, F32 or F16; held = length -
 *                      sliding_first in layers with a sliding window, length in the others
 *     layers.0.q_tail .k_tail .v_tail
 *                      [1 + length / 64, window, width] raw rows: those to go on with, then those
 *                      at every 64 tokens; of what is shifted
 *
 * The calls here are what session_save.c and session_load.c share. */
#ifndef KVSI_INFER_SESSION_FILE_H
#define KVSI_INFER_SESSION_FILE_H

#include "base/checksum.h"
#include "formats/tensor.h"
#include "infer/session.h"

#define KVSI_SESSION_FORMAT "kvshift session"

enum {
    KVSI_SESSION_VERSION = 1,
    KVSI_SESSION_OTHERS = 2
}; /* tensors that are no part: the first */

/* How many parts the state has; `out` receives the first `limit` of them. */
size_t kvsi_session_parts(kvsi_state_part *out, size_t limit, const kvsi_state *state);

kvsi_file_tensor kvsi_session_part_tensor(const kvsi_state_part *part, const void *data);
kvsi_file_tensor kvsi_session_ids_tensor(const int32_t *ids, size_t length);

/* As texts of KVSI_CHECKSUM_TEXT bytes: the sum of all tensors but the first, which holds it, and
 * that of a model's weights. */
kvs_status kvsi_session_checksum(char *text, const kvsi_file_tensor *tensors, size_t count,
                                 kvs_err *err);
kvs_status kvsi_session_weights(char *text, const kvs_model *model, kvs_err *err);

#endif
