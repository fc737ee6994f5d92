/* eval/journal.h - answers on disk, one line per document, written as soon as it is done.
 *
 * The first line is a JSON object that says what is evaluated: the fingerprint.  A journal can be
 * continued only by an evaluation with the same one.  A last line without a newline was not
 * completed and is removed. */
#ifndef KVSI_EVAL_JOURNAL_H
#define KVSI_EVAL_JOURNAL_H

#include "base/json.h"
#include "eval/answers.h"

typedef struct kvsi_eval_journal kvsi_eval_journal;

/* Receives an answer that was read.  It may take the members of *answer and set them to NULL. */
typedef kvs_status (*kvsi_eval_take)(void *user, size_t part, size_t document,
                                     kvsi_eval_answer *answer, kvs_err *err);

/* Opens dir/journal.jsonl.  If it does not exist, it is created.  If it exists, `resume` must be
 * set, the fingerprints must be equal, and each answer is passed to `take`.  *started is the
 * "started" of the journal: `started` itself for a new one. */
kvs_status kvsi_eval_journal_open(kvsi_eval_journal **out, const char *dir,
                                  const json_t *fingerprint, double *started, int resume,
                                  kvsi_eval_take take, void *user, kvs_err *err);
/* Adds an answer; kvsi_eval_journal_flush() makes it survive the end of this process. */
kvs_status kvsi_eval_journal_add(kvsi_eval_journal *journal, size_t part, size_t document,
                                 const kvsi_eval_answer *answer, size_t requests, kvs_err *err);
kvs_status kvsi_eval_journal_flush(kvsi_eval_journal *journal, kvs_err *err);
/* Closes the journal; `remove` deletes it. */
void kvsi_eval_journal_close(kvsi_eval_journal *journal, int remove);

#endif
