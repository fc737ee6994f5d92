/* eval/tasks/family.h - tasks of one kind: where their files are, and how a record of a file
 * becomes the texts of a document.
 *
 * A prompt is   description + for each shot [ text + " " + answer + "\n\n" ] + text
 * and a choice is the continuation " " + choice (lm-evaluation-harness 0.4.13). */
#ifndef KVSI_EVAL_TASKS_FAMILY_H
#define KVSI_EVAL_TASKS_FAMILY_H

#include "base/arena.h"
#include "base/text.h"
#include "eval/data_files.h"
#include "eval/python_text.h"
#include "eval/task.h"

typedef struct kvsi_eval_subject {
    const char *name;  /* in names of tasks */
    const char *title; /* CMMLU: in the description; MATH: field "type"; NULL otherwise */
    const char *file;  /* in names of files, where that differs from `name`; or NULL */
    const char *group; /* MMLU: which of its four groups; NULL otherwise */
    size_t official;   /* documents of the published split */
} kvsi_eval_subject;

/* A document before its prompt is made.  Texts belong to the arena of the task. */
typedef struct kvsi_eval_item {
    json_t *json;         /* in the harness's layout; owned */
    const char **texts;   /* the question; one per choice if that stands in the question */
    size_t text_count;    /* 1 or choice_count */
    const char **choices; /* continuations without the space before them */
    size_t choice_count;  /* 0 where text is generated */
    size_t gold;
    const char *answer; /* what follows the question in a few-shot example */
    const char *target; /* "target" of a sample */
    const char *file;
    size_t line;
} kvsi_eval_item;

/* What a family may use while it makes an item of a record. */
typedef struct kvsi_eval_source {
    const char *file;
    size_t line;
    const struct kvsi_eval_family *family;
    const kvsi_eval_subject *subject; /* or NULL */
    kvsi_arena *memory;
} kvsi_eval_source;

typedef struct kvsi_eval_family {
    const char *prefix, *suffix; /* a task's name is prefix + subject + suffix */
    const kvsi_eval_subject *subjects;
    size_t subject_count; /* 0: one task, named by `prefix` */
    double version;
    kvsi_eval_kind kind;
    int normalized;
    size_t official; /* without subjects */
    size_t default_shots;
    int alias_is_subject; /* otherwise the alias is the name */

    const char *folders[3]; /* the first that exists; ends with NULL */
    const char *part;       /* files with this in their names, in any case; or NULL */
    int evaluated;          /* splits, any of these */
    int pools[3];           /* few-shot examples: the first that exists; ends with 0 */
    const char *preferred;  /* of several training files */
    const char *shots_file; /* examples are all of this file, instead of a split */
    int first_shots;        /* the first ones, instead of a draw per document */
    int excludes_document;  /* draws one more, and drops copies of the document */

    const char *fields;         /* expected in a record, for messages */
    const char *const *columns; /* of CSV files without names; or NULL */
    const char *subject_field;  /* tells the subject in files of several subjects; or NULL */

    /* Appends the start of every prompt; NULL = nothing. */
    void (*describe)(kvsi_text *out, const kvsi_eval_subject *subject);
    kvs_status (*make)(kvsi_eval_item *item, const json_t *record, const kvsi_eval_source *source,
                       kvs_err *err);
    /* Makes few-shot examples of `shots_file`; NULL = make. */
    kvs_status (*make_shot)(kvsi_eval_item *item, const json_t *record,
                            const kvsi_eval_source *source, kvs_err *err);
} kvsi_eval_family;

/* All families, in tasks/families.c. */
extern const kvsi_eval_family kvsi_eval_families[];
extern const size_t kvsi_eval_family_count;

/* Families of tasks, one file each; see tasks/families.c. */
kvs_status kvsi_make_lambada(kvsi_eval_item *, const json_t *, const kvsi_eval_source *, kvs_err *);
kvs_status kvsi_make_winogrande(kvsi_eval_item *, const json_t *, const kvsi_eval_source *,
                                kvs_err *);
kvs_status kvsi_make_hellaswag(kvsi_eval_item *, const json_t *, const kvsi_eval_source *,
                               kvs_err *);
kvs_status kvsi_make_arc(kvsi_eval_item *, const json_t *, const kvsi_eval_source *, kvs_err *);
kvs_status kvsi_make_mmlu(kvsi_eval_item *, const json_t *, const kvsi_eval_source *, kvs_err *);
kvs_status kvsi_make_mmlu_cloze(kvsi_eval_item *, const json_t *, const kvsi_eval_source *,
                                kvs_err *);
kvs_status kvsi_make_cmmlu(kvsi_eval_item *, const json_t *, const kvsi_eval_source *, kvs_err *);
kvs_status kvsi_make_hendrycks_math(kvsi_eval_item *, const json_t *, const kvsi_eval_source *,
                                    kvs_err *);
kvs_status kvsi_make_minerva_math(kvsi_eval_item *, const json_t *, const kvsi_eval_source *,
                                  kvs_err *);
kvs_status kvsi_make_minerva_shot(kvsi_eval_item *, const json_t *, const kvsi_eval_source *,
                                  kvs_err *);
void kvsi_describe_mmlu(kvsi_text *out, const kvsi_eval_subject *subject);
void kvsi_describe_mmlu_cloze(kvsi_text *out, const kvsi_eval_subject *subject);
void kvsi_describe_cmmlu(kvsi_text *out, const kvsi_eval_subject *subject);

/* ---- fields of a record; messages give file, line, the fields found and expected ---- */

/* 'FILE' line N: MESSAGE */
kvs_status kvsi_record_refuse(kvs_err *err, const kvsi_eval_source *source, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* A member of any type; *out = NULL only on failure. */
kvs_status kvsi_field_value(json_t **out, const json_t *record, const char *key,
                            const kvsi_eval_source *source, kvs_err *err);
kvs_status kvsi_record_text(const char **out, const json_t *record, const char *key,
                            const kvsi_eval_source *source, kvs_err *err);
/* An array of texts, at least one of them; `out` is in the arena. */
kvs_status kvsi_record_texts(const char ***out, size_t *count, const json_t *record,
                             const char *key, const kvsi_eval_source *source, kvs_err *err);
/* The index of the right one of `count` choices: a number from 0, as text or as an integer. */
kvs_status kvsi_record_index(size_t *out, const json_t *record, const char *key, size_t count,
                             const kvsi_eval_source *source, kvs_err *err);
/* The index of a letter from A to D. */
kvs_status kvsi_record_letter(size_t *out, const json_t *record, const char *key,
                              const kvsi_eval_source *source, kvs_err *err);

/* A new object with those members of the record that `keys` (ends with NULL) names, in that
 * order. */
json_t *kvsi_record_pick(const json_t *record, const char *const *keys);

/* ---- parts of an item ---- */

/* Moves the text to the arena and empties it. */
kvs_status kvsi_item_keep(const char **out, kvsi_text *text, const kvsi_eval_source *source,
                          kvs_err *err);
/* Takes over `json`, which may be NULL if memory ran out, and sets the one text of the question. */
kvs_status kvsi_item_start(kvsi_eval_item *item, json_t *json, kvsi_text *text,
                           const kvsi_eval_source *source, kvs_err *err);
/* Sets choices, the right one, and the target, which is its index. */
kvs_status kvsi_item_choices(kvsi_eval_item *item, const char **choices, size_t count, size_t gold,
                             const kvsi_eval_source *source, kvs_err *err);

extern const char *kvsi_choice_letters[4]; /* A to D */

#endif
