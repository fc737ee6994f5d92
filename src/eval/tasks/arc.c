/* ARC: questions of school science with 3 to 5 choices, in AI2's layout or Hugging Face's:
 *
 *     {"id", "question": {"stem", "choices": [{"text", "label"}, ...]}, "answerKey"}
 *     {"id", "question", "choices": {"text": [...], "label": [...]}, "answerKey"} */
#include "base/memory.h"
#include "eval/tasks/family.h"

#include <string.h>

/* Appends to two lists what a list of {"text", "label"} has. */
static kvs_status split_choices(json_t *texts, json_t *labels, const json_t *list,
                                const kvsi_eval_source *source, kvs_err *err)
{
    const char *text, *label;
    json_t *choice;
    size_t i;

    json_array_foreach(list, i, choice) {
        if (!json_is_object(choice))
            return kvsi_record_refuse(
                err, source, "field 'choices': expected objects, place %zu is none", i + 1);
        TRY(kvsi_record_text(&text, choice, "text", source, err));
        TRY(kvsi_record_text(&label, choice, "label", source, err));
        json_array_append_new(texts, json_string(text));
        json_array_append_new(labels, json_string(label));
    }
    return KVS_OK;
}

/* The record in Hugging Face's layout, a new object. */
static kvs_status normal_layout(json_t **out, const json_t *record, const kvsi_eval_source *source,
                                kvs_err *err)
{
    static const char *const keys[] = {"id", "question", "choices", "answerKey", NULL};
    json_t *question, *list, *choices, *texts, *labels;
    const char *stem;
    kvs_status st;

    *out = NULL;
    TRY(kvsi_field_value(&question, record, "question", source, err));
    if (!json_is_object(question)) {
        *out = kvsi_record_pick(record, keys);
        return kvsi_json_check_made(*out, "a document", err);
    }
    TRY(kvsi_record_text(&stem, question, "stem", source, err));
    TRY(kvsi_field_value(&list, question, "choices", source, err));
    if (!json_is_array(list))
        return kvsi_record_refuse(err, source, "field 'choices': expected an array of objects");
    texts = json_array();
    labels = json_array();
    st = split_choices(texts, labels, list, source, err);
    choices = json_object();
    json_object_set_new(choices, "text", texts);
    json_object_set_new(choices, "label", labels);
    *out = json_object();
    if (json_object_get(record, "id"))
        json_object_set(*out, "id", json_object_get(record, "id"));
    json_object_set_new(*out, "question", json_string(stem));
    json_object_set_new(*out, "choices", choices);
    if (json_object_get(record, "answerKey"))
        json_object_set(*out, "answerKey", json_object_get(record, "answerKey"));
    return st == KVS_OK ? kvsi_json_check_made(*out, "a document", err) : st;
}

kvs_status kvsi_make_arc(kvsi_eval_item *item, const json_t *record, const kvsi_eval_source *source,
                         kvs_err *err)
{
    const char *question, *key, **texts, **labels;
    size_t count, label_count, gold = 0;
    kvsi_text text = {0};
    json_t *choices;
    kvs_status st;

    TRY(normal_layout(&item->json, record, source, err));
    TRY(kvsi_record_text(&question, item->json, "question", source, err));
    TRY(kvsi_field_value(&choices, item->json, "choices", source, err));
    if (!json_is_object(choices))
        return kvsi_record_refuse(err, source,
                                  "field 'choices': expected an object with text and label");
    TRY(kvsi_record_texts(&texts, &count, choices, "text", source, err));
    TRY(kvsi_record_texts(&labels, &label_count, choices, "label", source, err));
    TRY(kvsi_record_text(&key, item->json, "answerKey", source, err));
    if (label_count != count)
        return kvsi_record_refuse(err, source, "field 'choices': %zu texts, but %zu labels", count,
                                  label_count);
    while (gold < count && strcmp(labels[gold], key) != 0)
        gold++;
    if (gold == count)
        return kvsi_record_refuse(err, source,
                                  "field 'answerKey': '%.40s' is not the label of a choice", key);
    kvsi_text_format(&text, "Question: %s\nAnswer:", question);
    TRY_OUT(kvsi_item_start(item, item->json, &text, source, err));
    TRY_OUT(kvsi_item_choices(item, texts, count, gold, source, err));
out:
    kvsi_text_release(&text);
    return st;
}
