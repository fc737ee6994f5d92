/* run/tensorboard.h - writes TensorBoard event files.
 *
 * A file is a sequence of records: length (u64), its masked CRC-32C, bytes, their masked CRC-32C,
 * all little-endian.  The bytes are a protobuf Event: wall time (1), step (2), and either the
 * file's version (3) or a summary (5) of tags and values. */
#ifndef KVSI_RUN_TENSORBOARD_H
#define KVSI_RUN_TENSORBOARD_H

#include "base/status.h"

#include <stdint.h>

typedef struct kvsi_events kvsi_events;

/* Creates a file events.out.tfevents.* in `dir`, and `dir` if it does not exist.  A resumed run has
 * several such files, which TensorBoard joins. */
kvs_status kvsi_events_open(kvsi_events **out, const char *dir, kvs_err *err);
/* Writes nothing if the value is not finite. */
kvs_status kvsi_events_add(kvsi_events *events, uint64_t step, const char *tag, double value,
                           kvs_err *err);
void kvsi_events_close(kvsi_events *events); /* NULL does nothing */

uint32_t kvsi_crc32c(const void *data, size_t size);

#endif
