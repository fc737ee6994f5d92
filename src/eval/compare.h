/* eval/compare.h - models compared on the same documents.
 *
 * The first model is the reference: every other one is compared with it, unit by unit
 * (eval/units.h) and metric by metric.  A metric of which all values are 0 or 1 gets McNemar's
 * exact test; any other one, and the likelihood of the right answer, a paired bootstrap over
 * documents.
 * Units of several subjects also get a bootstrap that draws subjects, because questions of one
 * subject are alike. */
#ifndef KVSI_EVAL_COMPARE_H
#define KVSI_EVAL_COMPARE_H

#include "base/statistics.h"
#include "eval/units.h"

/* Tests of one role have one correction for multiple tests, over tasks and models. */
typedef enum kvsi_compare_role {
    KVSI_ROLE_MAIN,       /* kvsi_unit_metric */
    KVSI_ROLE_OTHER,      /* other metrics */
    KVSI_ROLE_LIKELIHOOD, /* perplexity of last words; bits per byte of the right choice */
    KVSI_ROLE_SUBJECT,    /* the main metric of one subject of a group */
    KVSI_ROLES,
} kvsi_compare_role;

typedef struct kvsi_compared {
    size_t model;       /* the second model; the first is 0 */
    const char *unit;   /* borrowed */
    const char *metric; /* borrowed, or "gold_bpb" */
    kvsi_compare_role role;
    int binary;
    int logarithms; /* values are perplexities; difference, error and intervals are of their
                       logarithms */
    int lower_is_better;
    size_t count, subjects;
    double values[2];
    size_t right[2];           /* binary: documents with 1 */
    size_t gained, lost;       /* binary: right only in the second, only in the first */
    double difference, error;  /* second - first, on the same documents */
    kvsi_interval interval;    /* 95 % */
    double p, mid;             /* mid: NaN unless binary */
    double holm;               /* p corrected */
    kvsi_resampled by_subject; /* of the difference; NaN for fewer than 2 subjects */
} kvsi_compared;

typedef struct kvsi_comparison {
    const kvsi_stored *models; /* borrowed */
    size_t model_count;
    kvsi_compared *rows;
    size_t count, capacity;
    size_t tests[KVSI_ROLES];
    char **remarks; /* what was left out or differs */
    size_t remark_count;
    kvsi_unit **units; /* [model]; rows borrow names */
    size_t *unit_counts;
} kvsi_comparison;

typedef struct kvsi_compare_options {
    size_t resamples; /* >= 2 */
    uint64_t seed;
    int same_prompts; /* leave out pairs with different requests */
} kvsi_compare_options;

/* `models` must stay until the comparison is released.  On failure *out is released. */
kvs_status kvsi_comparison_create(kvsi_comparison *out, const kvsi_stored *models, size_t count,
                                  const kvsi_compare_options *options, kvs_err *err);
void kvsi_comparison_release(kvsi_comparison *comparison); /* {0} is valid */

/* Bits of the right answer divided by its bytes; NaN = not known. */
double kvsi_gold_bits(const kvsi_stored_document *document);

/* What needs no model: the accuracy of always the first choice, of the longest, and of chance. */
typedef struct kvsi_baselines {
    size_t count;          /* documents whose right choice is known; 0 = not a task of choices */
    size_t first, longest; /* right documents */
    double random;         /* expected accuracy */
} kvsi_baselines;

kvsi_baselines kvsi_baselines_of(const kvsi_unit *unit);
/* Describes a score that equals one of these exactly; "" otherwise.  `value` is the accuracy. */
void kvsi_baseline_remark(char *out, size_t size, const kvsi_unit *unit, const char *label,
                          const char *metric);

#endif
