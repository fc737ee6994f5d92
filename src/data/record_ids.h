/* data/record_ids.h - the ids of one record of a training file, and which of them have a loss.
 *
 *     {"prompt": P, "response": R}     ids of P R, then EOS; a loss on those of R and on EOS
 *     {"messages": [...]}              ids of the text that the chat template makes; a loss on the
 *                                      answers: from where the template would start to generate an
 *                                      answer to the end of the text that ends it
 *
 * The place of an answer in the text is found by rendering the messages before it.  Its tokens are
 * those that contain a byte of it, among the tokens of the whole text. */
#ifndef KVSI_DATA_RECORD_IDS_H
#define KVSI_DATA_RECORD_IDS_H

#include "base/json.h"
#include "kvshift/kvshift_files.h"
#include "tokenizer/ids.h"

/* How records are read. */
typedef struct kvsi_record_rules {
    const char *path; /* of the file, for messages */
    kvs_record_kind kind;
    const kvs_tokenizer *tokenizer;
    const kvs_chat_template *chat_template;
    size_t most; /* number of ids that are used; answers that start later need not be found */
    int loss_all;
} kvsi_record_rules;

/* Starts as {0}.  Its memory is used again for the next record. */
typedef struct kvsi_record_ids {
    kvsi_ids ids;
    uint8_t *has_loss; /* [ids.count] */
    size_t capacity;   /* of has_loss */
    int is_cut;        /* there are more ids than `most`, not all of which are here */
    size_t inside;     /* starts and ends of answers that are inside a token */
} kvsi_record_ids;

/* Fails unless the object has the fields of its kind; `line` is its number. */
kvs_status kvsi_record_check(const kvsi_record_rules *rules, json_t *object, uint64_t line,
                             kvs_err *err);
/* Finds the kind of a record by its fields; `field` is the key of a document's text. */
kvs_status kvsi_record_kind(kvs_record_kind *out, json_t *object, const char *field,
                            const char *path, uint64_t line, kvs_err *err);
/* Replaces *out by the ids of a conversation that kvsi_record_check has accepted. */
kvs_status kvsi_record_encode(kvsi_record_ids *out, const kvsi_record_rules *rules, json_t *object,
                              uint64_t line, kvs_err *err);
void kvsi_record_ids_release(kvsi_record_ids *record);

#endif
