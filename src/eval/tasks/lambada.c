/* LAMBADA: the last word of a passage.  Words are what single spaces separate, so the last one may
 * contain line ends. */
#include "base/memory.h"
#include "eval/tasks/family.h"

#include <string.h>

kvs_status kvsi_make_lambada(kvsi_eval_item *item, const json_t *record,
                             const kvsi_eval_source *source, kvs_err *err)
{
    static const char *const keys[] = {"text", "domain", NULL};
    const char *passage, *space;
    kvsi_text text = {0};
    kvs_status st;

    TRY(kvsi_record_text(&passage, record, "text", source, err));
    space = strrchr(passage, ' ');
    if (space)
        kvsi_text_add_bytes(&text, passage, (size_t)(space - passage));
    TRY_OUT(kvsi_item_start(item, kvsi_record_pick(record, keys), &text, source, err));
    kvsi_text_add(&text, " ");
    kvsi_text_add(&text, space ? space + 1 : passage);
    TRY_OUT(kvsi_item_keep(&item->target, &text, source, err));
    item->answer = item->target;
    item->choices = kvsi_arena_alloc(source->memory, 1, sizeof *item->choices);
    if (!item->choices) {
        st = kvsi_no_memory(err, "a document of '%s'", source->file);
        goto out;
    }
    item->choices[0] = item->target;
    item->choice_count = 1;
out:
    kvsi_text_release(&text);
    return st;
}
