/* repro/execute.h - trains the planned runs of this rank, one after the other.  Each run has a
 * folder of its own.  In addition to the files that kvs_train writes, it contains:
 *
 *     planned.json    the settings of the plan, to recognize the run when resuming
 *     diverged.json   the error message, if the loss became NaN or infinite
 *     measured.json   the result of the experiment's `measure`
 */
#ifndef KVSI_REPRO_EXECUTE_H
#define KVSI_REPRO_EXECUTE_H

#include "repro/experiment.h"

#define KVSI_PLANNED "planned.json"
#define KVSI_MEASURED "measured.json"

typedef struct kvsi_execution {
    const kvsi_experiment *experiment;
    const kvs_repro_options *options;
    kvs_runtime *rt; /* without the other ranks */
    size_t rank;
    kvsi_plan *plan;
    kvs_corpus *corpus;       /* NULL = no text */
    kvs_tokenizer *tokenizer; /* NULL = none or unknown */
    double started;           /* clock seconds */
    double work_done;         /* floating-point operations since `started` */
} kvsi_execution;

/* Folder of a run inside the experiment's (kvsi_free); NULL: out of memory. */
char *kvsi_run_dir(const char *out, const char *name);

/* Text of planned.json: everything that determines the run's result, except text data, which is
 * compared per experiment.  Freed with free(); NULL: out of memory. */
char *kvsi_planned_describe(const kvsi_planned *run, const kvs_model_config *model,
                            const kvs_data *task);
/* Whether two such texts describe the same run. */
int kvsi_planned_same(const char *before, const char *planned);

/* Trains new runs, resumes unfinished ones, skips finished ones.  *stopped: the caller asked to
 * stop. */
kvs_status kvsi_execute(kvsi_execution *execution, int *stopped, kvs_err *err);

#endif
