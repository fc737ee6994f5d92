/* repro/conduct.h - an experiment's runs, those of this rank, one after the other: each has a
 * folder of its own, as kvs_train makes it, with beside it
 *
 *     planned.json    the settings it was planned with, so that no other run is taken for it
 *     diverged.json   where its loss stopped being a number, which ended it
 *     measured.json   what the experiment's own `measure` found
 */
#ifndef KVSI_REPRO_CONDUCT_H
#define KVSI_REPRO_CONDUCT_H

#include "repro/experiment.h"

#define KVSI_PLANNED "planned.json"
#define KVSI_MEASURED "measured.json"

typedef struct kvsi_conductor {
    const kvsi_experiment *experiment;
    const kvs_repro_options *options;
    kvs_runtime *rt; /* of this process alone */
    size_t rank;     /* whose runs are done */
    kvsi_plan *plan;
    kvs_corpus *corpus;       /* NULL = no text */
    kvs_tokenizer *tokenizer; /* NULL = none, or not known */
    double started;           /* clock seconds */
    double work_done;         /* floating-point operations since then */
} kvsi_conductor;

/* The folder of a run below the experiment's, in fresh memory; NULL: no memory. */
char *kvsi_conduct_dir(const char *out, const char *name);

/* The text of planned.json: everything that decides a run's result.  It is freed with free(); NULL:
 * no memory.  Text data is compared for the experiment as a whole. */
char *kvsi_conduct_describe(const kvsi_planned *run, const kvs_model_config *model,
                            const kvs_task *task);
/* Whether two such texts describe the same run. */
int kvsi_conduct_same(const char *before, const char *planned);

/* Does what is not done yet, and goes on with what was begun.  *stopped: the caller wished it. */
kvs_status kvsi_conduct(kvsi_conductor *conductor, int *stopped, kvs_err *err);

#endif
