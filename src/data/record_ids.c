#include "data/record_ids.h"

#include "base/array.h"
#include "base/memory.h"
#include "base/text.h"
#include "chat/chat.h"
#include "tokenizer/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum {
    MESSAGES_MAX = 4096,    /* of a conversation; each answer is rendered with all before it */
    RENDER_DAY = 1735689600 /* templates that write the date write 1 January 2025, so that a run
                               that is resumed on another day has the same tokens */
};

/* ---- kinds ----------------------------------------------------------------------------------- */

static const char *const expected[] = {
    [KVS_RECORD_TEXT] = "a text",
    [KVS_RECORD_PAIR] = "'prompt' and 'response'",
    [KVS_RECORD_MESSAGES] = "'messages'",
};

/* Fails with the names of the fields. */
static kvs_status wrong_fields(json_t *object, const char *wanted, const char *path, uint64_t line,
                               kvs_err *err)
{
    kvsi_text names = {0};
    const char *name;
    json_t *value;
    kvs_status st;

    json_object_foreach(object, name, value) {
        if (names.length > 120) {
            kvsi_text_add(&names, ", ...");
            break;
        }
        kvsi_text_format(&names, "%s'%.40s'", names.length > 0 ? ", " : "", name);
    }
    st = kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: expected %s, found %s%s", path,
                   (unsigned long long)line, wanted, names.length > 0 ? "the fields " : "no fields",
                   names.data ? names.data : "");
    kvsi_text_release(&names);
    return st;
}

kvs_status kvsi_record_kind(kvs_record_kind *out, json_t *object, const char *field,
                            const char *path, uint64_t line, kvs_err *err)
{
    char wanted[160];

    if (json_object_get(object, "messages")) {
        *out = KVS_RECORD_MESSAGES;
    } else if (json_object_get(object, "prompt") && json_object_get(object, "response")) {
        *out = KVS_RECORD_PAIR;
    } else if (json_object_get(object, field)) {
        *out = KVS_RECORD_TEXT;
    } else {
        snprintf(wanted, sizeof wanted, "'messages', 'prompt' and 'response', or '%.60s'", field);
        return wrong_fields(object, wanted, path, line, err);
    }
    return KVS_OK;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static kvs_status check_message(const json_t *message, size_t index, const char *path,
                                uint64_t line, kvs_err *err)
{
    const char *missing = NULL;

    if (!json_is_object(message))
        return kvsi_fail(
            err, KVS_E_FORMAT,
            "'%s' line %llu: message %zu: expected an object with 'role' and 'content'", path,
            (unsigned long long)line, index);
    if (!json_is_string(json_object_get(message, "role")))
        missing = "role";
    else if (!json_is_string(json_object_get(message, "content")) &&
             !json_object_get(message, "tool_calls"))
        missing = "content";
    if (missing)
        return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: message %zu: expected text in '%s'",
                         path, (unsigned long long)line, index, missing);
    return KVS_OK;
}

static int is_answer(const json_t *message)
{
    return strcmp(json_string_value(json_object_get(message, "role")), "assistant") == 0;
}

static kvs_status check_messages(const kvsi_record_rules *rules, json_t *messages, uint64_t line,
                                 kvs_err *err)
{
    const unsigned long long number = line;
    size_t index, answers = 0;
    json_t *message;

    if (!json_is_array(messages) || json_array_size(messages) == 0)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' line %llu: expected a list of messages in 'messages'", rules->path,
                         number);
    if (json_array_size(messages) > MESSAGES_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "'%s' line %llu: %zu messages, expected at most %d",
                         rules->path, number, json_array_size(messages), MESSAGES_MAX);
    json_array_foreach(messages, index, message) {
        TRY(check_message(message, index, rules->path, line, err));
        answers += (size_t)is_answer(message);
    }
    if (answers == 0 && !rules->loss_all)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s' line %llu: no message has the role 'assistant': nothing to learn",
                         rules->path, number);
    return KVS_OK;
}

kvs_status kvsi_record_check(const kvsi_record_rules *rules, json_t *object, uint64_t line,
                             kvs_err *err)
{
    static const char *const fields[] = {"prompt", "response"};

    if (rules->kind == KVS_RECORD_MESSAGES) {
        if (!json_object_get(object, "messages"))
            return wrong_fields(object, expected[rules->kind], rules->path, line, err);
        return check_messages(rules, json_object_get(object, "messages"), line, err);
    }
    for (size_t i = 0; i < 2; i++) {
        const json_t *value = json_object_get(object, fields[i]);

        if (!value)
            return wrong_fields(object, expected[KVS_RECORD_PAIR], rules->path, line, err);
        if (!json_is_string(value))
            return kvsi_fail(err, KVS_E_FORMAT, "'%s' line %llu: expected text in '%s'",
                             rules->path, (unsigned long long)line, fields[i]);
    }
    return KVS_OK;
}

/* ---- ids ------------------------------------------------------------------------------------- */

static kvs_status add_ids(kvsi_record_ids *out, const int32_t *ids, size_t count, int has_loss,
                          kvs_err *err)
{
    const size_t before = out->ids.count;

    if (count == 0)
        return KVS_OK;
    TRY(kvsi_ids_add(&out->ids, ids, count, err));
    TRY(kvsi_array_reserve(&out->has_loss, &out->capacity, out->ids.count, 1, err));
    memset(out->has_loss + before, has_loss, count);
    return KVS_OK;
}

static kvs_status encode(int32_t **ids, size_t *count, const kvsi_record_rules *rules,
                         const char *text, size_t size, kvs_err *err)
{
    return kvs_tokenizer_encode(ids, count, rules->tokenizer, text, size, KVS_ENCODE_NO_SPECIAL,
                                err);
}

/* Finds the ids of `text`, ids[0 .. count-1], on both sides of byte `at`: *before is the number of
 * ids that end there or earlier, and *inside is 1 if the next one contains bytes of both sides. */
static kvs_status find_boundary(size_t *before, int *inside, const kvsi_record_rules *rules,
                                const char *text, size_t at, const int32_t *ids, size_t count,
                                kvs_err *err)
{
    int32_t *part = NULL;
    size_t parts, same = 0;
    kvs_status st;

    TRY_OUT(encode(&part, &parts, rules, text, at, err));
    while (same < parts && same < count && part[same] == ids[same])
        same++;
    *before = same;
    *inside = same < parts;
out:
    kvs_ids_free(part);
    return st;
}

/* Bytes start .. end-1 of a text. */
typedef struct stretch {
    size_t start, end;
} stretch;

/* Appends the ids of the text; those in the stretches, which are in order, have a loss. */
static kvs_status add_text(kvsi_record_ids *out, const kvsi_record_rules *rules, const char *text,
                           size_t size, const stretch *answers, size_t answer_count, kvs_err *err)
{
    const size_t first = out->ids.count;
    int32_t *ids = NULL;
    size_t count;
    kvs_status st;

    TRY_OUT(encode(&ids, &count, rules, text, size, err));
    TRY_OUT(add_ids(out, ids, count, rules->loss_all, err));
    for (size_t i = 0; i < answer_count && !rules->loss_all; i++) {
        size_t from, to = count;
        int starts_inside, ends_inside = 0;

        TRY_OUT(
            find_boundary(&from, &starts_inside, rules, text, answers[i].start, ids, count, err));
        if (answers[i].end < size)
            TRY_OUT(find_boundary(&to, &ends_inside, rules, text, answers[i].end, ids, count, err));
        to += (size_t)ends_inside;
        out->inside += (size_t)(starts_inside + ends_inside);
        if (from < to)
            memset(out->has_loss + first + from, 1, to - from);
    }
out:
    kvs_ids_free(ids);
    return st;
}

/* ---- prompt and response --------------------------------------------------------------------- */

/* A prompt starts as that of 'generate' does: with the tokens that the tokenizer adds. */
static kvs_status encode_pair(kvsi_record_ids *out, const kvsi_record_rules *rules, json_t *object,
                              kvs_err *err)
{
    const json_t *prompt = json_object_get(object, "prompt");
    const json_t *response = json_object_get(object, "response");
    const size_t start = json_string_length(prompt);
    const kvs_tokenizer *t = rules->tokenizer;
    const int32_t eos = kvs_tokenizer_eos(t);
    kvsi_text text = {0};
    stretch answer;
    kvs_status st;

    kvsi_text_add(&text, "");
    kvsi_text_add_bytes(&text, json_string_value(prompt), start);
    kvsi_text_add_bytes(&text, json_string_value(response), json_string_length(response));
    TRY_OUT(kvsi_text_check(&text, err));
    answer = (stretch){start, text.length};
    TRY_OUT(add_ids(out, t->before.ids, t->before.count, 0, err));
    TRY_OUT(add_text(out, rules, text.data, text.length, &answer, 1, err));
    if (eos >= 0)
        TRY_OUT(add_ids(out, &eos, 1, 1, err));
out:
    kvsi_text_release(&text);
    return st;
}

/* ---- messages -------------------------------------------------------------------------------- */

/* A conversation that is being read. */
typedef struct conversation {
    const kvsi_record_rules *rules;
    json_t *messages;
    char *variables; /* {"tools": [...]}, or NULL; free() it */
    uint64_t line;
    kvsi_text text;   /* the messages up to the last answer that was found */
    stretch *answers; /* in the text */
    size_t count, capacity;
} conversation;

/* Renders the first `count` messages; `asks` = up to the start of an answer. */
static kvs_status render(kvsi_text *out, const conversation *c, size_t count, int asks,
                         kvs_err *err)
{
    kvs_chat_options how = {.size = sizeof how,
                            .add_generation_prompt = asks,
                            .variables = c->variables,
                            .now = RENDER_DAY};
    json_t *part = json_array();
    kvs_err inner = {0};
    kvs_status st;

    out->length = 0;
    kvsi_text_add(out, "");
    for (size_t i = 0; i < count; i++)
        json_array_append(part, json_array_get(c->messages, i));
    TRY_OUT(kvsi_json_check_made(part, "messages", err));
    st = kvsi_chat_render(out, c->rules->chat_template, part, &how, &inner);
    if (st != KVS_OK)
        st = kvsi_fail(err, st, "'%s' line %llu: %s", c->rules->path, (unsigned long long)c->line,
                       inner.message);
out:
    json_decref(part);
    return st;
}

static int starts_with(const kvsi_text *text, const kvsi_text *start)
{
    return start->length <= text->length &&
           (start->length == 0 || memcmp(text->data, start->data, start->length) == 0);
}

static kvs_status cannot_find(const conversation *c, size_t message, const char *why, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "'%s' line %llu: message %zu: the chat template of '%.100s' %s, so its tokens "
                     "cannot be found",
                     c->rules->path, (unsigned long long)c->line, message,
                     c->rules->chat_template->name, why);
}

/* The end of an answer: white space behind the text that ends it is not part of it.  A template
 * without such a text ends answers with that white space. */
static size_t end_of_answer(const conversation *c, const kvsi_text *text)
{
    size_t size = text->length, space;

    if (!*kvs_chat_template_stop(c->rules->chat_template))
        return size;
    while ((space = kvsi_space_at_end(text->data, size)) > 0)
        size -= space;
    return size;
}

/* Whether the text has at least `least` ids. */
static kvs_status is_long(int *out, const conversation *c, const kvsi_text *text, size_t size,
                          size_t least, kvs_err *err)
{
    int32_t *ids = NULL;
    size_t count = 0;
    kvs_status st = KVS_OK;

    if (size >= least) /* a token has at least a byte */
        st = encode(&ids, &count, c->rules, text->data, size, err);
    *out = count >= least;
    kvs_ids_free(ids);
    return st;
}

/* Finds the answer that is message number `index`; *ends = the limit is reached. */
static kvs_status find_answer(int *ends, conversation *c, size_t index, kvsi_text *asked,
                              kvsi_text *answered, kvs_err *err)
{
    kvsi_text before;
    stretch found;

    TRY(render(asked, c, index, 1, err));
    if (!starts_with(asked, &c->text))
        return cannot_find(c, index, "changes earlier messages when this one follows", err);
    TRY(is_long(ends, c, asked, asked->length, c->rules->most, err));
    if (*ends)
        return KVS_OK;
    TRY(render(answered, c, index + 1, 0, err));
    if (!starts_with(answered, asked))
        return cannot_find(c, index, "does not begin this answer as it begins one to be generated",
                           err);
    found = (stretch){asked->length, end_of_answer(c, answered)};
    if (found.end < found.start)
        found.end = found.start;
    TRY(kvsi_array_reserve(&c->answers, &c->capacity, c->count + 1, sizeof *c->answers, err));
    c->answers[c->count++] = found;
    before = c->text;
    c->text = *answered;
    *answered = before;
    return is_long(ends, c, &c->text, found.end, c->rules->most + 1, err);
}

static kvs_status find_answers(conversation *c, int *is_cut, kvs_err *err)
{
    kvsi_text asked = {0}, answered = {0};
    const size_t count = json_array_size(c->messages);
    size_t i = 0;
    kvs_status st = KVS_OK;

    for (; i < count && !*is_cut; i++)
        if (is_answer(json_array_get(c->messages, i)))
            TRY_OUT(find_answer(is_cut, c, i, &asked, &answered, err));
out:
    kvsi_text_release(&asked);
    kvsi_text_release(&answered);
    return st;
}

/* The text after the last answer has no loss and is left out. */
static kvs_status encode_messages(kvsi_record_ids *out, const kvsi_record_rules *rules,
                                  json_t *object, uint64_t line, kvs_err *err)
{
    conversation c = {
        .rules = rules, .messages = json_object_get(object, "messages"), .line = line};
    json_t *tools = json_object_get(object, "tools"), *variables = NULL;
    kvs_status st = KVS_OK;

    if (tools) {
        variables = json_pack("{s:O}", "tools", tools);
        TRY_OUT(kvsi_json_dump(&c.variables, variables, JSON_COMPACT, "tools", err));
    }
    kvsi_text_add(&c.text, "");
    if (rules->loss_all)
        TRY_OUT(render(&c.text, &c, json_array_size(c.messages), 0, err));
    else
        TRY_OUT(find_answers(&c, &out->is_cut, err));
    TRY_OUT(kvsi_text_check(&c.text, err));
    if (c.count > 0)
        c.text.length = c.answers[c.count - 1].end;
    TRY_OUT(add_text(out, rules, c.text.data, c.text.length, c.answers, c.count, err));
out:
    kvsi_text_release(&c.text);
    kvsi_free(c.answers);
    free(c.variables);
    json_decref(variables);
    return st;
}

/* ---------------------------------------------------------------------------------------------- */

kvs_status kvsi_record_encode(kvsi_record_ids *out, const kvsi_record_rules *rules, json_t *object,
                              uint64_t line, kvs_err *err)
{
    out->ids.count = 0;
    out->inside = 0;
    out->is_cut = 0;
    if (rules->kind == KVS_RECORD_MESSAGES)
        TRY(encode_messages(out, rules, object, line, err));
    else
        TRY(encode_pair(out, rules, object, err));
    out->is_cut = out->is_cut || out->ids.count > rules->most;
    return KVS_OK;
}

void kvsi_record_ids_release(kvsi_record_ids *record)
{
    kvsi_free(record->ids.ids);
    kvsi_free(record->has_loss);
    *record = (kvsi_record_ids){0};
}
