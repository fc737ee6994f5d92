/* report/run_extras.h - what a run's folder has besides its log: the machine, the texts that the
 * model generated, and the shift of the final model.  All of it may be missing. */
#ifndef KVSI_REPORT_RUN_EXTRAS_H
#define KVSI_REPORT_RUN_EXTRAS_H

#include "base/status.h"

#include <stdint.h>

enum { KVSI_SAMPLES_SHOWN = 3 };

typedef struct kvsi_run_sample {
    uint64_t step;
    char *prompt, *text;
} kvsi_run_sample;

/* The shares of the previous tokens in what a KV head mixes: 1 - |tap of the current token| / sum
 * of all |taps|. */
typedef struct kvsi_head_share {
    size_t layer;
    double k, v; /* NaN = not shifted */
} kvsi_head_share;

typedef struct kvsi_run_extras {
    char processor[128], started[32];            /* "" = not recorded */
    kvsi_run_sample samples[KVSI_SAMPLES_SHOWN]; /* the last ones */
    size_t sample_count;
    kvsi_head_share *heads;
    size_t head_count;
} kvsi_run_extras;

/* Files that are damaged count as missing; fails only if memory runs out. */
kvs_status kvsi_run_extras_read(kvsi_run_extras *out, const char *dir, kvs_err *err);
void kvsi_run_extras_release(kvsi_run_extras *extras); /* a zeroed one is fine */

#endif
