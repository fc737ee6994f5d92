/* MATH: problems whose solutions end with a boxed answer; text is generated and graded. */
#include "base/memory.h"
#include "eval/grade_math.h"
#include "eval/tasks/family.h"

/* The answer of a solution, in fresh memory: kvsi_math_boxed or kvsi_minerva_boxed. */
typedef kvs_status boxed_answer(char **answer, const char *solution, kvs_err *err);

static kvs_status make(kvsi_eval_item *item, const json_t *record, const char *before,
                       const char *after, boxed_answer *boxed, const kvsi_eval_source *source,
                       kvs_err *err)
{
    static const char *const keys[] = {"problem", "level", "type", "solution", NULL};
    const char *problem, *solution;
    kvsi_text text = {0};
    char *answer = NULL;
    json_t *json;
    kvs_err inner;
    kvs_status st;

    TRY(kvsi_record_text(&problem, record, "problem", source, err));
    TRY(kvsi_record_text(&solution, record, "solution", source, err));
    st = boxed(&answer, solution, &inner);
    if (st != KVS_OK)
        return st == KVS_E_NOMEM
                   ? kvsi_fail(err, st, "%s", inner.message)
                   : kvsi_record_refuse(err, source, "field 'solution': %s", inner.message);
    json = kvsi_record_pick(record, keys);
    json_object_set_new(json, "answer", json_string(answer));
    kvsi_text_add(&text, before);
    kvsi_text_add(&text, problem);
    kvsi_text_add(&text, after);
    TRY_OUT(kvsi_item_start(item, json, &text, source, err));
    kvsi_text_add(&text, answer);
    TRY_OUT(kvsi_item_keep(&item->answer, &text, source, err));
    item->target = item->answer;
out:
    kvsi_text_release(&text);
    kvsi_free(answer);
    return st;
}

kvs_status kvsi_make_hendrycks_math(kvsi_eval_item *item, const json_t *record,
                                    const kvsi_eval_source *source, kvs_err *err)
{
    return make(item, record, "Problem: ", "\nAnswer:", kvsi_math_boxed, source, err);
}

kvs_status kvsi_make_minerva_math(kvsi_eval_item *item, const json_t *record,
                                  const kvsi_eval_source *source, kvs_err *err)
{
    return make(item, record, "Problem:\n", "\n\nSolution:", kvsi_minerva_boxed, source, err);
}

/* A fixed example: its whole solution follows. */
kvs_status kvsi_make_minerva_shot(kvsi_eval_item *item, const json_t *record,
                                  const kvsi_eval_source *source, kvs_err *err)
{
    static const char *const keys[] = {"problem", "solution", NULL};
    const char *problem;
    kvsi_text text = {0};
    kvs_status st;

    TRY(kvsi_record_text(&problem, record, "problem", source, err));
    TRY(kvsi_record_text(&item->answer, record, "solution", source, err));
    kvsi_text_format(&text, "Problem:\n%s\n\nSolution:", problem);
    TRY_OUT(kvsi_item_start(item, kvsi_record_pick(record, keys), &text, source, err));
    item->target = item->answer;
out:
    kvsi_text_release(&text);
    return st;
}
