/* eval/grade_math.h - whether a generated text answers a problem of MATH, as
 * lm-evaluation-harness 0.4.13 decides it for its tasks hendrycks_math and minerva_math.
 *
 * Texts are UTF-8 and end with a NUL; bytes that are not UTF-8 count as one character each.  Time
 * and memory are linear in their length.  There is no model and no state: any thread may call. */
#ifndef KVSI_EVAL_GRADE_MATH_H
#define KVSI_EVAL_GRADE_MATH_H

#include "base/status.h"

typedef enum kvsi_verdict {
    KVSI_WRONG,
    KVSI_RIGHT,
    KVSI_UNDECIDED /* only symbolic algebra can tell; minerva_math only */
} kvsi_verdict;

/* Starts as {0}. */
typedef struct kvsi_math_grade {
    kvsi_verdict verdict;
    char *answer; /* hendrycks_math: what was taken from the text; minerva_math: normalized */
    char *gold;   /* the same for the solution */
} kvsi_math_grade;

void kvsi_math_grade_release(kvsi_math_grade *grade);

/* Both fail with KVS_E_FORMAT if the solution has no boxed answer, since then the harness stops
 * too.  *out can be released after a failure. */
kvs_status kvsi_grade_hendrycks(kvsi_math_grade *out, const char *generated, const char *solution,
                                kvs_err *err);
kvs_status kvsi_grade_minerva(kvsi_math_grade *out, const char *generated, const char *solution,
                              kvs_err *err);

/* The boxed answer of a solution, which is "answer" of a document of hendrycks_math.  Free with
 * kvsi_free. */
kvs_status kvsi_math_boxed(char **answer, const char *solution, kvs_err *err);
/* The same normalized, which is "answer" of a document of minerva_math. */
kvs_status kvsi_minerva_boxed(char **answer, const char *solution, kvs_err *err);

#endif
