/* MMLU and CMMLU: questions with four choices.
 *
 * The letter form shows the choices and asks for a letter; the cloze form scores the choices
 * themselves.  MMLU's documents are rows of CSV (question, A, B, C, D, letter) or objects of
 * Hugging Face's layout (question, subject, choices, answer from 0); CMMLU's are rows or objects
 * with Question, A, B, C, D, Answer. */
#include "base/memory.h"
#include "eval/tasks/family.h"

#include <string.h>

static void add_subject(kvsi_text *out, const char *name)
{
    for (; *name; name++)
        kvsi_text_add_bytes(out, *name == '_' ? " " : name, 1);
}

void kvsi_describe_mmlu(kvsi_text *out, const kvsi_eval_subject *subject)
{
    kvsi_text_add(out, "The following are multiple choice questions (with answers) about ");
    add_subject(out, subject->name);
    kvsi_text_add(out, ".\n\n");
}

void kvsi_describe_mmlu_cloze(kvsi_text *out, const kvsi_eval_subject *subject)
{
    kvsi_text_add(out, "The following are questions (with answers) about ");
    add_subject(out, subject->name);
    kvsi_text_add(out, ".\n\n");
}

void kvsi_describe_cmmlu(kvsi_text *out, const kvsi_eval_subject *subject)
{
    kvsi_text_format(out, "以下是关于%s的单项选择题，请直接给出正确答案的选项。\n\n",
                     subject->title);
}

typedef struct question {
    const char *text;
    const char **choices; /* 4 */
    size_t gold;
} question;

/* The four choices of fields A to D. */
static kvs_status read_choices(question *q, const json_t *record, const kvsi_eval_source *source,
                               kvs_err *err)
{
    q->choices = kvsi_arena_alloc(source->memory, 4, sizeof *q->choices);
    if (!q->choices)
        return kvsi_no_memory(err, "a document of '%s'", source->file);
    for (size_t i = 0; i < 4; i++)
        TRY(kvsi_record_text(&q->choices[i], record, kvsi_choice_letters[i], source, err));
    return KVS_OK;
}

static kvs_status read_mmlu(question *q, const json_t *record, const kvsi_eval_source *source,
                            kvs_err *err)
{
    size_t count = 4;

    TRY(kvsi_record_text(&q->text, record, "question", source, err));
    if (json_object_get(record, "A")) {
        TRY(read_choices(q, record, source, err));
        return kvsi_record_letter(&q->gold, record, "answer", source, err);
    }
    TRY(kvsi_record_texts(&q->choices, &count, record, "choices", source, err));
    if (count != 4)
        return kvsi_record_refuse(err, source, "field 'choices': expected 4, found %zu", count);
    return kvsi_record_index(&q->gold, record, "answer", 4, source, err);
}

/* The document in Hugging Face's layout.  It shares its texts with the record, so that `q` stays
 * valid with it. */
static json_t *mmlu_json(const json_t *record, const question *q, const kvsi_eval_subject *subject)
{
    json_t *json = json_object(), *choices = json_object_get(record, "choices");

    if (json_object_get(record, "A")) {
        choices = json_array();
        for (size_t i = 0; i < 4; i++)
            json_array_append(choices, json_object_get(record, kvsi_choice_letters[i]));
    } else {
        json_incref(choices);
    }
    json_object_set(json, "question", json_object_get(record, "question"));
    json_object_set_new(json, "subject", json_string(subject->name));
    json_object_set_new(json, "choices", choices);
    json_object_set_new(json, "answer", json_integer((json_int_t)q->gold));
    return json;
}

/* The question and its lettered choices. */
static void add_question(kvsi_text *text, const question *q)
{
    const kvsi_text_part inner = kvsi_python_strip(q->text, strlen(q->text));

    kvsi_text_add_bytes(text, inner.text, inner.size);
    for (size_t i = 0; i < 4; i++)
        kvsi_text_format(text, "\n%s. %s", kvsi_choice_letters[i], q->choices[i]);
}

kvs_status kvsi_make_mmlu(kvsi_eval_item *item, const json_t *record,
                          const kvsi_eval_source *source, kvs_err *err)
{
    kvsi_text text = {0};
    question q;
    kvs_status st;

    TRY(read_mmlu(&q, record, source, err));
    add_question(&text, &q);
    kvsi_text_add(&text, "\nAnswer:");
    TRY_OUT(kvsi_item_start(item, mmlu_json(record, &q, source->subject), &text, source, err));
    TRY_OUT(kvsi_item_choices(item, kvsi_choice_letters, 4, q.gold, source, err));
out:
    kvsi_text_release(&text);
    return st;
}

kvs_status kvsi_make_mmlu_cloze(kvsi_eval_item *item, const json_t *record,
                                const kvsi_eval_source *source, kvs_err *err)
{
    kvsi_text text = {0};
    kvsi_text_part inner;
    question q;
    kvs_status st;

    TRY(read_mmlu(&q, record, source, err));
    inner = kvsi_python_strip(q.text, strlen(q.text));
    kvsi_text_add(&text, "Question: ");
    kvsi_text_add_bytes(&text, inner.text, inner.size);
    kvsi_text_add(&text, "\nAnswer:");
    TRY_OUT(kvsi_item_start(item, mmlu_json(record, &q, source->subject), &text, source, err));
    TRY_OUT(kvsi_item_choices(item, q.choices, 4, q.gold, source, err));
out:
    kvsi_text_release(&text);
    return st;
}

kvs_status kvsi_make_cmmlu(kvsi_eval_item *item, const json_t *record,
                           const kvsi_eval_source *source, kvs_err *err)
{
    static const char *const keys[] = {"Question", "A", "B", "C", "D", "Answer", NULL};
    kvsi_text text = {0};
    question q;
    kvs_status st;

    TRY(kvsi_record_text(&q.text, record, "Question", source, err));
    TRY(read_choices(&q, record, source, err));
    TRY(kvsi_record_letter(&q.gold, record, "Answer", source, err));
    add_question(&text, &q);
    kvsi_text_add(&text, "\n答案：");
    TRY_OUT(kvsi_item_start(item, kvsi_record_pick(record, keys), &text, source, err));
    TRY_OUT(kvsi_item_choices(item, kvsi_choice_letters, 4, q.gold, source, err));
out:
    kvsi_text_release(&text);
    return st;
}
