/* infer/session_file.h - session files: safetensors with
 *
 *     session          U8: JSON, the format and the model it belongs to
 *     ids              I32 [length]
 *     last             [dim] the last token's output after the final norm
 *     layers.0.k  .v   [kv_heads, held, head_size] the cache, F32 or F16, or bytes of Q8_0; held =
 *                      length - sliding_first in layers with a sliding window, length in the others
 *     layers.0.q_tail .k_tail .v_tail
 *                      [1 + length / 64, window, width] raw rows: the current tail, then its
 *                      snapshots every 64 tokens; only of shifted targets
 *
 * Shared by session_save.c and session_load.c. */
#ifndef KVSI_INFER_SESSION_FILE_H
#define KVSI_INFER_SESSION_FILE_H

#include "base/checksum.h"
#include "formats/tensor.h"
#include "infer/session.h"

#define KVSI_SESSION_FORMAT "kvshift session"

enum { KVSI_SESSION_VERSION = 1, KVSI_SESSION_OTHERS = 2 }; /* tensors before the parts */

/* Returns the number of parts of the state; `out` receives the first `limit`. */
size_t kvsi_session_parts(kvsi_state_part *out, size_t limit, const kvsi_state *state);

kvsi_file_tensor kvsi_session_part_tensor(const kvsi_state_part *part, const void *data);
kvsi_file_tensor kvsi_session_ids_tensor(const int32_t *ids, size_t length);

/* Checksums as texts of KVSI_CHECKSUM_TEXT bytes: of all tensors but the first, which holds it, and
 * of a model's weights. */
kvs_status kvsi_session_checksum(char *text, const kvsi_file_tensor *tensors, size_t count,
                                 kvs_err *err);
kvs_status kvsi_session_weights(char *text, const kvs_model *model, kvs_err *err);

#endif
