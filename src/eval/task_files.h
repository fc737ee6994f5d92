/* eval/task_files.h - the files of a task below the data folder. */
#ifndef KVSI_EVAL_TASK_FILES_H
#define KVSI_EVAL_TASK_FILES_H

#include "eval/tasks/family.h"

typedef struct kvsi_task_files {
    char **paths;
    size_t count;
    int filtered; /* they have several subjects, told by a field */
} kvsi_task_files;

/* The files of the evaluated split, or of the few-shot examples.  If there are none, that is
 * refused with what was looked for. */
kvs_status kvsi_task_files_find(kvsi_task_files *out, const kvsi_eval_family *family,
                                const kvsi_eval_subject *subject, const char *data, int shots,
                                kvs_err *err);
void kvsi_task_files_release(kvsi_task_files *files);

/* Whether a record of a file with several subjects is of the source's subject. */
kvs_status kvsi_eval_record_is_of(int *is, const json_t *record, const kvsi_eval_source *source,
                                  kvs_err *err);

/* found[i] = whether there are documents of subject i to evaluate.  A missing folder is an
 * error. */
kvs_status kvsi_task_subjects_found(char *found, const kvsi_eval_family *family, const char *data,
                                    kvs_err *err);

#endif
