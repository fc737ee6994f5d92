/* WinoGrande: which of two words fits a gap.  The gap is filled in the context, and the rest of the
 * sentence is the continuation, the same for both. */
#include "base/memory.h"
#include "eval/tasks/family.h"

#include <string.h>

kvs_status kvsi_make_winogrande(kvsi_eval_item *item, const json_t *record,
                                const kvsi_eval_source *source, kvs_err *err)
{
    static const char *const keys[] = {"sentence", "option1", "option2", "answer", NULL};
    const char *sentence, *options[2], *answer, *gap;
    kvsi_text_part rest;
    kvsi_text text = {0};
    json_t *json;
    kvs_status st;

    TRY(kvsi_record_text(&sentence, record, "sentence", source, err));
    TRY(kvsi_record_text(&options[0], record, "option1", source, err));
    TRY(kvsi_record_text(&options[1], record, "option2", source, err));
    TRY(kvsi_record_text(&answer, record, "answer", source, err));
    gap = strchr(sentence, '_');
    if (!gap)
        return kvsi_record_refuse(err, source, "field 'sentence': expected a '_', found none");
    if (strcmp(answer, "1") != 0 && strcmp(answer, "2") != 0)
        return kvsi_record_refuse(err, source, "field 'answer': expected '1' or '2', found '%.40s'",
                                  answer);
    json = kvsi_record_pick(record, keys);
    TRY_OUT(kvsi_item_start(item, json, &text, source, err));
    item->texts = kvsi_arena_alloc(source->memory, 2, sizeof *item->texts);
    item->choices = kvsi_arena_alloc(source->memory, 2, sizeof *item->choices);
    if (!item->texts || !item->choices) {
        st = kvsi_no_memory(err, "a document of '%s'", source->file);
        goto out;
    }
    for (size_t i = 0; i < 2; i++) {
        kvsi_text_add_bytes(&text, sentence, (size_t)(gap - sentence));
        kvsi_text_add(&text, options[i]);
        TRY_OUT(kvsi_item_keep(&item->texts[i], &text, source, err));
    }
    rest = kvsi_python_strip(gap + 1, strlen(gap + 1));
    kvsi_text_add_bytes(&text, rest.text, rest.size);
    TRY_OUT(kvsi_item_keep(&item->answer, &text, source, err));
    item->text_count = item->choice_count = 2;
    item->choices[0] = item->choices[1] = item->target = item->answer;
    item->gold = answer[0] == '2';
out:
    kvsi_text_release(&text);
    return st;
}
