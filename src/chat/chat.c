/* Rendering of messages. */
#include "chat/chat.h"

#include "base/memory.h"
#include "base/sized.h"
#include "base/utf8.h"
#include "tokenizer/characters.h"

#include <string.h>
#include <time.h>

static const kvs_chat_options defaults = {.size = sizeof defaults};

void kvs_chat_options_init(kvs_chat_options *options, size_t size)
{
    kvsi_sized_init(options, size, &defaults, sizeof defaults);
}

/* ---- variables ------------------------------------------------------------------------------- */

static kvs_status set(kvsi_value *variables, kvsi_render *r, const char *name, kvsi_value value)
{
    return kvsi_dict_set(variables, r, name, strlen(name), value);
}

static kvs_status add_members(kvsi_value *variables, kvsi_render *r, json_t *object)
{
    const char *name;
    json_t *member;

    json_object_foreach(object, name, member) {
        kvsi_value key, value;

        TRY(kvsi_make_text(&key, r, name, strlen(name)));
        TRY(kvsi_value_from_json(&value, r, member));
        TRY(kvsi_dict_set(variables, r, key.text, key.size, value));
    }
    return KVS_OK;
}

/* Templates read the reasoning of a message under different names.  Like transformers, this stores
 * it as `thinking` and as `reasoning_content`. */
static kvs_status name_reasoning(kvsi_value *message, kvsi_render *r)
{
    static const char *const names[] = {"reasoning_content", "thinking", "reasoning"};
    const kvsi_value *found = NULL;
    kvsi_value all;

    for (size_t i = 0; i < 3 && !(found && found->kind != KVSI_VALUE_NONE); i++)
        TRY(kvsi_dict_find(&found, r, message->dict, names[i], strlen(names[i])));
    if (!found || found->kind == KVSI_VALUE_NONE)
        return KVS_OK;
    TRY(kvsi_make_dict(&all, r));
    TRY(set(&all, r, "thinking", *found));
    for (size_t i = 0; i < message->dict->count; i++)
        TRY(kvsi_dict_set(&all, r, message->dict->at[i].key, message->dict->at[i].size,
                          message->dict->at[i].value));
    TRY(set(&all, r, "reasoning_content", *found));
    *message = all;
    return KVS_OK;
}

static kvs_status make_messages(kvsi_value *out, kvsi_render *r, json_t *messages)
{
    size_t index;
    json_t *message;

    json_array_foreach(messages, index, message) {
        if (!json_is_object(message))
            return kvsi_fail(r->err, KVS_E_FORMAT,
                             "message %zu: expected an object with 'role' and 'content'", index);
    }
    TRY(kvsi_value_from_json(out, r, messages));
    for (size_t i = 0; i < out->items->count; i++)
        TRY(name_reasoning(&out->items->at[i], r));
    return KVS_OK;
}

static kvs_status add_variables(kvsi_value *variables, kvsi_render *r, const kvs_chat_template *t,
                                const char *text)
{
    static const char *const reserved[] = {"messages", "add_generation_prompt", "documents"};
    json_t *object = NULL;
    const char *name;
    json_t *member;
    kvs_status st;

    TRY_OUT(kvsi_json_parse(&object, text, strlen(text), "variables", r->err));
    json_object_foreach(object, name, member) {
        int is_reserved = json_object_get(t->tokens, name) != NULL;

        for (size_t i = 0; i < sizeof reserved / sizeof *reserved; i++)
            is_reserved = is_reserved || strcmp(reserved[i], name) == 0;
        if (is_reserved) {
            st = kvsi_fail(r->err, KVS_E_INVALID, "variables: '%.60s' cannot be set", name);
            goto out;
        }
    }
    st = add_members(variables, r, object);
out:
    json_decref(object);
    return st;
}

/* ---- rendering ------------------------------------------------------------------------------- */

kvs_status kvsi_chat_render(kvsi_text *out, const kvs_chat_template *t, json_t *messages,
                            const kvs_chat_options *o, kvs_err *err)
{
    kvsi_render r = {.err = err, .out = out, .line = 1};
    kvsi_value variables, value;
    kvs_status st;

    r.arena = kvsi_arena_create();
    if (!r.arena)
        return kvsi_no_memory(err, "a chat template");
    r.now = o->now ? o->now : (int64_t)time(NULL);
    TRY_OUT(kvsi_make_dict(&variables, &r));
    TRY_OUT(make_messages(&value, &r, messages));
    TRY_OUT(set(&variables, &r, "messages", value));
    TRY_OUT(set(&variables, &r, "add_generation_prompt", kvsi_bool(o->add_generation_prompt)));
    TRY_OUT(set(&variables, &r, "tools", (kvsi_value){.kind = KVSI_VALUE_NONE}));
    TRY_OUT(set(&variables, &r, "documents", (kvsi_value){.kind = KVSI_VALUE_NONE}));
    TRY_OUT(add_members(&variables, &r, t->tokens));
    if (o->variables)
        TRY_OUT(add_variables(&variables, &r, t, o->variables));
    kvsi_text_add(out, "");
    TRY_OUT(kvsi_template_run(&r, t->body, &variables));
    st = kvsi_text_check(out, err);
out:
    kvsi_arena_free(r.arena);
    return st;
}

kvs_status kvs_chat_render(char **text, size_t *size, const kvs_chat_template *chat_template,
                           const char *messages, size_t messages_size,
                           const kvs_chat_options *options, kvs_err *err)
{
    kvs_chat_options o = defaults;
    json_t *list = NULL;
    kvsi_text out = {0};
    kvs_status st;

    NEED(text);
    *text = NULL;
    NEED(size);
    NEED(chat_template);
    NEED(messages);
    TRY(kvsi_sized_read(&o, sizeof o, options, "kvs_chat_options", err));
    if (messages_size > KVSI_CHAT_MESSAGES_MAX)
        return kvsi_fail(err, KVS_E_LIMIT, "the messages have %zu bytes, at most %d are read",
                         messages_size, KVSI_CHAT_MESSAGES_MAX);
    TRY(kvsi_json_parse_list(&list, messages, messages_size, "messages", err));
    TRY_OUT(kvsi_chat_render(&out, chat_template, list, &o, err));
    *text = kvsi_alloc(out.length + 1, 1);
    if (!*text) {
        st = kvsi_no_memory(err, "the text of a chat");
        goto out;
    }
    memcpy(*text, out.data, out.length);
    *size = out.length;
out:
    kvsi_text_release(&out);
    json_decref(list);
    return st;
}

/* ---- the end of a message -------------------------------------------------------------------- */

/* Renders an answer and takes what stands behind it, without white space around it. */
static kvs_status find_stop(char **out, const kvs_chat_template *t, kvs_err *err)
{
    static const char mark[] = "zqxanswerxqz";
    json_t *messages = json_pack("[{s:s, s:s}, {s:s, s:s}]", "role", "user", "content", "a", "role",
                                 "assistant", "content", mark);
    kvsi_text text = {0};
    const char *end = NULL;
    size_t size = 0, space;
    kvs_status st;

    if (!messages)
        return kvsi_no_memory(err, "a chat template");
    st = kvsi_chat_render(&text, t, messages, &defaults, NULL);
    if (st == KVS_OK && (end = strstr(text.data, mark)) != NULL) {
        end += strlen(mark);
        size = strlen(end);
        while ((space = kvsi_space_at_start(end, size)) > 0) {
            end += space;
            size -= space;
        }
        while ((space = kvsi_space_at_end(end, size)) > 0)
            size -= space;
    }
    *out = kvsi_alloc(size + 1, 1);
    if (*out && size > 0)
        memcpy(*out, end, size);
    kvsi_text_release(&text);
    json_decref(messages);
    return *out && st != KVS_E_NOMEM ? KVS_OK : kvsi_no_memory(err, "a chat template");
}

const char *kvs_chat_template_stop(const kvs_chat_template *chat_template)
{
    return chat_template ? chat_template->stop : NULL;
}

const char *kvs_chat_template_text(const kvs_chat_template *chat_template)
{
    return chat_template ? chat_template->text : NULL;
}

/* ---- creating -------------------------------------------------------------------------------- */

void kvs_chat_template_free(kvs_chat_template *chat_template)
{
    if (!chat_template)
        return;
    kvsi_arena_free(chat_template->arena);
    json_decref(chat_template->tokens);
    kvsi_free(chat_template->name);
    kvsi_free(chat_template->text);
    kvsi_free(chat_template->stop);
    kvsi_free(chat_template);
}

kvs_status kvsi_chat_create(kvs_chat_template **out, const char *text, size_t size, json_t *tokens,
                            const char *what, kvs_err *err)
{
    kvs_chat_template *t = kvsi_alloc(1, sizeof *t);
    kvs_err inner = {0};
    kvs_status st = KVS_E_NOMEM;

    if (t) {
        t->arena = kvsi_arena_create();
        t->name = kvsi_strdup(what);
        t->text = kvsi_alloc(size + 1, 1);
    }
    if (!t || !t->arena || !t->name || !t->text) {
        json_decref(tokens);
        st = kvsi_no_memory(err, "a chat template");
        goto out;
    }
    memcpy(t->text, text, size);
    t->tokens = tokens;
    st = kvsi_template_parse(&t->body, t->arena, text, size, &inner);
    if (st != KVS_OK) {
        st = kvsi_fail(err, st, "chat template of '%.200s': %s", what, inner.message);
        goto out;
    }
    TRY_OUT(find_stop(&t->stop, t, err));
    *out = t;
    t = NULL;
out:
    kvs_chat_template_free(t);
    return st;
}

kvs_status kvs_chat_template_create(kvs_chat_template **out, const char *text, size_t size,
                                    kvs_err *err)
{
    NEED(out);
    *out = NULL;
    NEED(text);
    return kvsi_chat_create(out, text, size, NULL, "the caller", err);
}
