/* serve/metrics.h - counters of the server, in the text format of Prometheus. */
#ifndef KVSI_SERVE_METRICS_H
#define KVSI_SERVE_METRICS_H

#include "serve/engine.h"

typedef struct kvsi_metrics kvsi_metrics;

kvs_status kvsi_metrics_create(kvsi_metrics **out, kvs_err *err);
void kvsi_metrics_free(kvsi_metrics *metrics);
/* Counts an answer.  `path` is that of a route, a constant. */
void kvsi_metrics_answer(kvsi_metrics *metrics, const char *path, unsigned status);
/* Counts the times of a job that is over. */
void kvsi_metrics_job(kvsi_metrics *metrics, const kvsi_job *job);
void kvsi_metrics_write(kvsi_text *out, kvsi_metrics *metrics, const kvsi_engine_stats *stats);

#endif
