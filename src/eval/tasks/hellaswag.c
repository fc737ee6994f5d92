/* HellaSwag: the end of a description.  Brackets are left from the web pages that it was made
 * of. */
#include "base/memory.h"
#include "eval/tasks/family.h"

#include <string.h>

/* Appends the text with every `from` replaced, from left to right. */
static void replace(kvsi_text *out, const char *text, const char *from, const char *to)
{
    for (const char *hit; (hit = strstr(text, from)); text = hit + strlen(from)) {
        kvsi_text_add_bytes(out, text, (size_t)(hit - text));
        kvsi_text_add(out, to);
    }
    kvsi_text_add(out, text);
}

/* Appends the text without [...], up to the nearest bracket and within a line. */
static void drop_brackets(kvsi_text *out, const char *text)
{
    while (*text) {
        const char *end = *text == '[' ? strpbrk(text, "]\n") : NULL;

        if (end && *end == ']') {
            text = end + 1;
        } else {
            kvsi_text_add_bytes(out, text, 1);
            text++;
        }
    }
}

/* Replaces the text by: stripped, " [title]" as ". ", without brackets, two spaces as one. */
static kvs_status clean(kvsi_text *text, kvs_err *err)
{
    kvsi_text one = {0}, two = {0};
    kvsi_text_part inner;
    kvs_status st;

    TRY(kvsi_text_check(text, err));
    inner = kvsi_python_strip(text->data ? text->data : "", text->length);
    kvsi_text_add_bytes(&two, inner.text, inner.size);
    TRY_OUT(kvsi_text_check(&two, err));
    replace(&one, two.data, " [title]", ". ");
    TRY_OUT(kvsi_text_check(&one, err));
    two.length = 0;
    kvsi_text_add(&two, "");
    drop_brackets(&two, one.data);
    TRY_OUT(kvsi_text_check(&two, err));
    text->length = 0;
    replace(text, two.data, "  ", " ");
    st = kvsi_text_check(text, err);
out:
    kvsi_text_release(&one);
    kvsi_text_release(&two);
    return st;
}

static json_t *make_json(const json_t *record, const char *context, const char *more,
                         const kvsi_eval_item *item, size_t gold)
{
    static const char *const keys[] = {"ind",     "activity_label", "ctx_a", "ctx_b",      "ctx",
                                       "endings", "source_id",      "split", "split_type", NULL};
    json_t *json = kvsi_record_pick(record, keys), *choices = json_array();
    char label[2] = {(char)('0' + gold), '\0'};

    json_object_set_new(json, "ctx_a", json_string(context));
    json_object_set_new(json, "ctx_b", json_string(more));
    json_object_set_new(json, "label", json_string(label));
    json_object_set_new(json, "query", json_string(item->texts[0]));
    for (size_t i = 0; i < item->choice_count; i++)
        json_array_append_new(choices, json_string(item->choices[i]));
    json_object_set_new(json, "choices", choices);
    json_object_set_new(json, "gold", json_integer((json_int_t)gold));
    return json;
}

kvs_status kvsi_make_hellaswag(kvsi_eval_item *item, const json_t *record,
                               const kvsi_eval_source *source, kvs_err *err)
{
    const char *activity, *context, *more = "", **endings;
    kvsi_text text = {0};
    size_t count, gold;
    kvs_status st;

    TRY(kvsi_record_text(&activity, record, "activity_label", source, err));
    if (json_object_get(record, "ctx_a") || !json_object_get(record, "ctx")) {
        TRY(kvsi_record_text(&context, record, "ctx_a", source, err));
        TRY(kvsi_record_text(&more, record, "ctx_b", source, err));
    } else { /* the two parts cannot be told apart any more */
        TRY(kvsi_record_text(&context, record, "ctx", source, err));
    }
    TRY(kvsi_record_texts(&endings, &count, record, "endings", source, err));
    if (count > 10)
        return kvsi_record_refuse(err, source, "field 'endings': expected at most 10, found %zu",
                                  count);
    TRY(kvsi_record_index(&gold, record, "label", count, source, err));

    kvsi_text_add(&text, activity);
    kvsi_text_add(&text, ": ");
    kvsi_text_add(&text, context);
    kvsi_text_add(&text, " ");
    kvsi_python_capitalize(&text, more, strlen(more));
    TRY_OUT(clean(&text, err));
    TRY_OUT(kvsi_item_start(item, json_null(), &text, source, err));
    for (size_t i = 0; i < count; i++) {
        kvsi_text_add(&text, endings[i]);
        TRY_OUT(clean(&text, err));
        TRY_OUT(kvsi_item_keep(&endings[i], &text, source, err));
    }
    TRY_OUT(kvsi_item_choices(item, endings, count, gold, source, err));
    item->json = make_json(record, context, more, item, gold);
    st = kvsi_json_check_made(item->json, "a document", err);
out:
    kvsi_text_release(&text);
    return st;
}
