#include "cli/train_records.h"

#include "cli/model_input.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- sizes ----------------------------------------------------------------------------------- */

size_t kvsi_train_sequence_tokens(const kvsi_train_options *s)
{
    return s->sequence_tokens > 0 ? s->sequence_tokens : kvsi_model_count(s->model, "context");
}

static uint64_t sequences_of(const kvsi_train_setup *w, const kvsi_train_options *s,
                             kvs_split split)
{
    return w->corpus ? kvs_corpus_windows(w->corpus, split, kvsi_train_sequence_tokens(s))
                     : w->records.split[split].sequences;
}

uint64_t kvsi_train_sequences(const kvsi_train_setup *w, const kvsi_train_options *s)
{
    return sequences_of(w, s, KVS_SPLIT_TRAIN);
}

uint64_t kvsi_train_valid_sequences(const kvsi_train_setup *w, const kvsi_train_options *s)
{
    return sequences_of(w, s, KVS_SPLIT_VALID);
}

int kvsi_train_has_conversations(const kvsi_train_setup *w)
{
    return w->records.split[KVS_SPLIT_TRAIN].records > 0 && w->records.kind != KVS_RECORD_TEXT;
}

/* ---- opening --------------------------------------------------------------------------------- */

kvs_status kvsi_train_refuse_record_options(const kvsi_train_options *s,
                                            const kvsi_parsed_options *parsed, kvs_err *err)
{
    static const char *const names[] = {"tokenizer", "chat-template", "too-long"};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (kvsi_train_is_given_now(parsed, names[i]))
            return kvsi_fail(err, KVS_E_INVALID,
                             "option '--%s' is for a .jsonl or text file as '--data'", names[i]);
    if (!s->data && kvsi_train_is_given_now(parsed, "sequence-tokens"))
        return kvsi_fail(err, KVS_E_INVALID, "option '--sequence-tokens' needs '--data'");
    return KVS_OK;
}

static kvs_status refuse_for(const kvsi_parsed_options *parsed, const char *option,
                             const char *what, const char *path, kvs_err *err)
{
    return kvsi_train_is_given_now(parsed, option)
               ? kvsi_fail(err, KVS_E_INVALID, "option '--%s' is for %s, but '%s' has none", option,
                           what, path)
               : KVS_OK;
}

static kvs_status load_tokenizer(kvsi_train_setup *w, const kvsi_train_options *s, kvs_err *err)
{
    const kvsi_model_input input = {.model = s->init_from};

    if (s->tokenizer)
        return kvs_tokenizer_load(&w->tokenizer, s->tokenizer, err);
    if (s->init_from)
        return kvsi_model_tokenizer(&w->tokenizer, &input, 1, err);
    return kvsi_fail(err, KVS_E_INVALID,
                     "'%s' is a text file: name its tokenizer with '--tokenizer' (-t), or build a "
                     "corpus with 'kvshift data build %s --tokenizer FILE --out DIR'",
                     s->data, s->data);
}

static kvs_status load_template(kvsi_train_setup *w, const kvsi_train_options *s, kvs_err *err)
{
    kvs_err inner = {0};
    kvs_status st;

    if (!s->init_from && !s->chat_template)
        return kvsi_fail(err, KVS_E_INVALID,
                         "'%s' has messages, which need a chat template: name one with "
                         "'--chat-template'",
                         s->data);
    st = kvs_chat_template_load(&w->chat_template, s->init_from, s->chat_template, w->tokenizer,
                                &inner);
    return st == KVS_OK ? KVS_OK
                        : kvsi_fail(err, st, "%s%s", inner.message,
                                    s->chat_template ? "" : " (option --chat-template)");
}

kvs_status kvsi_train_open_records(kvsi_train_setup *w, const kvsi_train_options *s,
                                   const kvsi_parsed_options *parsed, kvs_err *err)
{
    kvs_records_options how;
    kvs_record_kind kind;

    TRY(kvs_records_detect(&kind, s->data, NULL, err));
    if (kind != KVS_RECORD_MESSAGES)
        TRY(refuse_for(parsed, "chat-template", "messages", s->data, err));
    if (kind == KVS_RECORD_TEXT) {
        TRY(refuse_for(parsed, "too-long", "conversations", s->data, err));
        TRY(refuse_for(parsed, "loss", "conversations", s->data, err));
    }
    TRY(load_tokenizer(w, s, err));
    if (kind == KVS_RECORD_MESSAGES)
        TRY(load_template(w, s, err));
    kvs_records_options_init(&how, sizeof how);
    how.tokenizer = w->tokenizer;
    how.chat_template = w->chat_template;
    how.length = kvsi_train_sequence_tokens(s);
    how.valid = s->valid_data;
    how.loss_all = kvsi_train_has_loss_everywhere(s);
    how.refuse_long = strcmp(s->too_long, "refuse") == 0;
    w->records.size = sizeof w->records;
    return kvs_data_create_records(&w->data, &w->records, s->data, &how, err);
}

/* ---- announcing ------------------------------------------------------------------------------ */

static void announce_template(const kvsi_train_setup *w)
{
    const char *stop = kvs_chat_template_stop(w->chat_template);
    int32_t *ids = NULL;
    size_t count = 0;

    if (*stop && kvs_tokenizer_find(w->tokenizer, stop) < 0 &&
        kvs_tokenizer_encode(&ids, &count, w->tokenizer, stop, strlen(stop), KVS_ENCODE_NO_SPECIAL,
                             NULL) == KVS_OK)
        fprintf(stderr,
                "kvshift: the text that ends an answer, '%s', is %zu tokens of the tokenizer\n",
                stop, count);
    kvs_ids_free(ids);
}

static const char *plural(uint64_t count)
{
    return count == 1 ? "" : "s";
}

void kvsi_train_announce_records(const kvsi_train_setup *w, const kvsi_train_options *s)
{
    const kvs_records_info *info = &w->records;
    const kvs_records_split *train = &info->split[KVS_SPLIT_TRAIN],
                            *valid = &info->split[KVS_SPLIT_VALID];
    const int is_text = info->kind == KVS_RECORD_TEXT;
    const double batch = kvs_train_config_number(s->train, "batch");
    const double steps = kvs_train_config_number(s->train, "steps");

    if (w->chat_template)
        announce_template(w);
    fprintf(stderr,
            "data: %" PRIu64 " %s%s with %" PRIu64 " tokens, a loss on %" PRIu64
            "; for validation %" PRIu64 " with %" PRIu64 ", a loss on %" PRIu64 "\n",
            train->records, is_text ? "document" : "conversation", plural(train->records),
            train->tokens, train->targets, valid->records, valid->tokens, valid->targets);
    if (info->cut > 0)
        fprintf(stderr,
                "data: %" PRIu64 " conversation%s cut at %zu tokens; the longest has %" PRIu64
                "%s\n",
                info->cut, plural(info->cut), kvsi_train_sequence_tokens(s) + 1, info->longest,
                info->kind == KVS_RECORD_MESSAGES ? " or more" : "");
    if (info->dropped > 0)
        fprintf(stderr, "data: %" PRIu64 " conversation%s left out: no token with a loss%s\n",
                info->dropped, plural(info->dropped), info->cut > 0 ? " before the cut" : "");
    if (info->inside > 0)
        fprintf(stderr,
                "data: %" PRIu64
                " token%s with bytes of a prompt and of a response; a loss on %s\n",
                info->inside, plural(info->inside), info->inside == 1 ? "it" : "them");
    fprintf(stderr, "plan: %.0f steps of %.0f sequences, %.2f epochs, rate %g (%s)\n", steps, batch,
            steps * batch / (double)train->sequences, kvs_train_config_number(s->train, "lr"),
            kvsi_train_word(s->train, "schedule").text);
}
