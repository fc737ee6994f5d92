/* chat/chat.h - chat templates: where they come from (load.c, templates.c), and rendering
 * (chat.c).  The language is in template.h. */
#ifndef KVSI_CHAT_CHAT_H
#define KVSI_CHAT_CHAT_H

#include "chat/template.h"
#include "kvshift/kvshift_files.h"

struct kvs_chat_template {
    kvsi_arena *arena;
    kvsi_node *body;
    char *name, *text; /* where it comes from, for messages; the source */
    json_t *tokens;    /* bos_token and the like: {"bos_token": "<s>"} */
    char *stop;        /* the text that ends a message of the assistant */
};

/* Returns the text of the built-in template of that name, or NULL if there is none. */
const char *kvsi_chat_named(const char *name);
/* kvs_chat_render() of an array; appends to *out. */
kvs_status kvsi_chat_render(kvsi_text *out, const kvs_chat_template *t, json_t *messages,
                            const kvs_chat_options *options, kvs_err *err);
/* Parses a template; takes `tokens`, which may be NULL, also after a failure.  `what` is the name
 * of the template in messages. */
kvs_status kvsi_chat_create(kvs_chat_template **out, const char *text, size_t size, json_t *tokens,
                            const char *what, kvs_err *err);

#endif
