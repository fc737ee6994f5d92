/* kvshift chat: a conversation with a model, on a terminal or with one message per line of standard
 * input. */
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/configs.h"
#include "cli/model_input.h"
#include "cli/sampling_options.h"
#include "cli/signals.h"
#include "kvshift/kvshift_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct settings {
    kvsi_model_input input;
    kvs_sampling sampling;
    const char *template, *system;
    size_t tokens;
    kvsi_text_list stops;
    int json;
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    KVSI_MODEL_ROWS(settings),
    {.name = "template", .kind = KVSI_SETTING_TEXT, .offset = FIELD(template), .group = "Input",
     .placeholder = "NAME",
     .help = "chat template: chatml, llama2, llama3, mistral, zephyr, phi3, gemma, raw, or a file",
     .automatic = "the model's"},
    {.name = "system", .kind = KVSI_SETTING_TEXT, .offset = FIELD(system), .group = "Input",
     .placeholder = "TEXT", .help = "system message, before the first message",
     .automatic = "none"},
    {.name = "new-tokens", .letter = 'n', .kind = KVSI_SETTING_SIZE, .offset = FIELD(tokens),
     .group = "Output", .placeholder = "N", .help = "maximum number of tokens of an answer",
     .low = 1, .value = "512"},
    {.name = "stop", .kind = KVSI_SETTING_TEXT, .offset = FIELD(stops), .group = "Output",
     .placeholder = "TEXT", .repeats = 1,
     .help = "also end an answer before this text; may be given several times"},
    {.name = "json", .kind = KVSI_SETTING_FLAG, .offset = FIELD(json), .group = "Output",
     .help = "print one JSON object per answer instead of the text"},
    KVSI_SAMPLING_ROWS(settings),
    KVSI_RUN_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift chat",
    .examples = "  kvshift chat -m model\n"
                "  kvshift chat -m model.gguf --system \"Answer in one sentence.\" --temp 0.7\n"
                "  echo \"What is a shift?\" | kvshift chat -m runs/book --template chatml\n",
    .purpose = "A conversation with a model.  Each line is a message, and the whole conversation "
               "is the context of an answer.",
    .notes = "On a terminal Ctrl-C stops an answer, /reset begins a new conversation, and /exit or "
             "Ctrl-D ends.\nFrom a pipe each line is a message, and /reset and /exit work as "
             "well.\nThe JSON object has role, content, prompt_tokens (of the whole conversation), "
             "fed_tokens (those that\nwere not in the cache), new_tokens and finish (length, eos, "
             "stop, context or interrupt).",
    .tables = KVSI_OPTIONS(rows),
    .takes_config = 1,
};

typedef struct chat {
    const settings *s;
    const kvsi_loaded_model *m;
    kvs_chat_template *template;
    kvs_session *session;
    json_t *messages;
    const char *stops[KVSI_LIST_MAX + 1];
    size_t stop_count, answers;
    char input[4096]; /* what was read from input_fd, from input_next on not yet used */
    size_t input_next, input_count;
    int input_fd, on_terminal;

    /* The current answer. */
    kvsi_text text;
    size_t prompt_count, fed, count;
    int was_interrupted;
} chat;

enum { LINE_MAX_BYTES = 1 << 20 };

/* ---- the conversation ------------------------------------------------------------------------ */

static kvs_status no_memory(kvs_err *err)
{
    return kvsi_fail(err, KVS_E_NOMEM, "out of memory for the conversation");
}

static kvs_status add_message(chat *c, const char *role, const char *text, size_t size,
                              kvs_err *err)
{
    json_t *message = json_pack("{s:s, s:o}", "role", role, "content", kvsi_json_text(text, size));

    return json_array_append_new(c->messages, message) == 0 ? KVS_OK : no_memory(err);
}

static kvs_status begin(chat *c, kvs_err *err)
{
    json_array_clear(c->messages);
    return c->s->system ? add_message(c, "system", c->s->system, strlen(c->s->system), err)
                        : KVS_OK;
}

/* The ids of the conversation up to the start of the next answer. */
static kvs_status encode(int32_t **ids, size_t *count, const chat *c, kvs_err *err)
{
    kvs_chat_options how;
    char *messages = NULL, *text = NULL;
    size_t size;
    kvs_status st;

    kvs_chat_options_init(&how, sizeof how);
    how.add_generation_prompt = 1;
    TRY_OUT(kvsi_json_dump(&messages, c->messages, JSON_COMPACT, "messages", err));
    TRY_OUT(kvs_chat_render(&text, &size, c->template, messages, strlen(messages), &how, err));
    TRY_OUT(
        kvs_tokenizer_encode(ids, count, c->m->tokenizer, text, size, KVS_ENCODE_NO_SPECIAL, err));
    if (*count == 0)
        st = kvsi_fail(err, KVS_E_INVALID, "the template gives no text for the conversation");
    else if (*count > kvs_session_capacity(c->session))
        st = kvsi_fail(err, KVS_E_LIMIT,
                       "the conversation has %zu tokens, the model's context is %zu; /reset begins "
                       "a new one",
                       *count, kvs_session_capacity(c->session));
out:
    free(messages);
    kvs_text_free(text);
    return st;
}

/* Keeps the tokens at the start of the session that the conversation still begins with, and returns
 * their number.  A session with a sliding window may have to start again. */
static kvs_status keep_prefix(size_t *kept, chat *c, const int32_t *ids, size_t count, kvs_err *err)
{
    const size_t length = kvs_session_length(c->session);
    const int32_t *fed = kvs_session_ids(c->session);
    size_t same = 0;

    while (same < length && same < count && fed[same] == ids[same])
        same++;
    if (same > 0 && same < length && same < kvs_session_earliest(c->session))
        same = 0;
    if (same == 0)
        kvs_session_reset(c->session);
    else if (same < length)
        TRY(kvs_session_rewind(c->session, same, err));
    *kept = same;
    return KVS_OK;
}

/* ---- one answer ------------------------------------------------------------------------------ */

/* Callback of kvs_generate: prints and collects the text. */
static int add_token(void *user, const kvs_generated *token)
{
    chat *c = user;

    c->count += token->id >= 0 && !token->ends;
    kvsi_text_add_bytes(&c->text, token->text, token->text_size);
    if (!c->s->json) {
        fwrite(token->text, 1, token->text_size, stdout);
        fflush(stdout);
    }
    c->was_interrupted = c->on_terminal && kvsi_take_interrupt();
    return c->was_interrupted;
}

static kvs_status print_answer(const chat *c, kvs_finish finish, kvs_err *err)
{
    static const char *const names[] = {[KVS_FINISH_LENGTH] = "length",
                                        [KVS_FINISH_EOS] = "eos",
                                        [KVS_FINISH_STOP] = "stop",
                                        [KVS_FINISH_FULL] = "context"};

    if (!c->s->json) {
        putchar('\n');
        fflush(stdout);
        return KVS_OK;
    }
    return kvsi_cli_print_json_line(
        json_pack("{s:s, s:o, s:I, s:I, s:I, s:s}", "role", "assistant", "content",
                  kvsi_json_text(c->text.data, c->text.length), "prompt_tokens",
                  (json_int_t)c->prompt_count, "fed_tokens", (json_int_t)c->fed, "new_tokens",
                  (json_int_t)c->count, "finish", c->was_interrupted ? "interrupt" : names[finish]),
        err);
}

static kvs_status generate(chat *c, const int32_t *ids, size_t count, kvs_err *err)
{
    kvs_sampling sampling = c->s->sampling;
    kvs_generate_options how;
    kvs_finish finish = KVS_FINISH_LENGTH;
    kvs_status st;

    sampling.seed += c->answers++;
    c->text.length = c->count = 0;
    kvsi_text_add(&c->text, "");
    kvs_generate_options_init(&how, sizeof how);
    how.max_tokens = c->s->tokens;
    how.sampling = &sampling;
    how.tokenizer = c->m->tokenizer;
    how.stops = c->stops;
    how.stop_count = c->stop_count;
    how.token = add_token;
    how.user = c;
    st = kvs_generate(&finish, c->session, ids, count, &how, err);
    if (st != KVS_OK && !(st == KVS_E_STOPPED && c->was_interrupted))
        return st;
    TRY(kvsi_text_check(&c->text, err));
    TRY(print_answer(c, finish, err));
    if (finish == KVS_FINISH_FULL)
        fprintf(stderr,
                "kvshift: the context of %zu tokens is full; /reset begins a new "
                "conversation\n",
                kvs_session_capacity(c->session));
    return KVS_OK;
}

/* Answers a message.  After an error the message is forgotten. */
static kvs_status answer(chat *c, const char *line, size_t size, kvs_err *err)
{
    const size_t before = json_array_size(c->messages);
    int32_t *ids = NULL;
    size_t count, kept;
    kvs_status st;

    TRY_OUT(add_message(c, "user", line, size, err));
    TRY_OUT(encode(&ids, &count, c, err));
    TRY_OUT(keep_prefix(&kept, c, ids, count, err));
    c->prompt_count = count;
    c->fed = count - kept;
    c->was_interrupted = 0;
    TRY_OUT(generate(c, ids + kept, count - kept, err));
    TRY_OUT(add_message(c, "assistant", c->text.data, c->text.length, err));
out:
    while (st != KVS_OK && json_array_size(c->messages) > before)
        json_array_remove(c->messages, before);
    kvs_ids_free(ids);
    return st;
}

/* ---- lines ----------------------------------------------------------------------------------- */

/* The next byte of standard input, EOF at its end or after Ctrl-C, which sets *interrupted. */
static kvs_status next_byte(int *byte, int *interrupted, chat *c, kvs_err *err)
{
    *byte = EOF;
    *interrupted = 0;
    while (c->input_next == c->input_count) {
        ssize_t count;

        if (c->on_terminal && !kvsi_wait_for_input(c->input_fd)) {
            *interrupted = kvsi_take_interrupt();
            return KVS_OK;
        }
        count = read(c->input_fd, c->input, sizeof c->input);
        if (count < 0 && errno != EINTR && errno != EAGAIN)
            return kvsi_fail(err, KVS_E_IO, "cannot read standard input: %s", strerror(errno));
        if (count == 0)
            return KVS_OK;
        c->input_next = 0;
        c->input_count = count < 0 ? 0 : (size_t)count;
    }
    *byte = (unsigned char)c->input[c->input_next++];
    return KVS_OK;
}

/* The next line without its end; *found = 0 at the end of the input, and *text is empty after
 * Ctrl-C. */
static kvs_status read_line(kvsi_text *text, int *found, chat *c, kvs_err *err)
{
    int byte, interrupted;

    text->length = 0;
    kvsi_text_add(text, "");
    for (;;) {
        TRY(next_byte(&byte, &interrupted, c, err));
        if (byte == EOF || byte == '\n')
            break;
        kvsi_text_add_bytes(text, (const char[]){(char)byte}, 1);
        if (text->length > LINE_MAX_BYTES)
            return kvsi_fail(err, KVS_E_LIMIT, "a message has more than %d bytes", LINE_MAX_BYTES);
    }
    if (interrupted) {
        fputs("\n(/exit or Ctrl-D ends)\n", stderr);
        text->length = 0;
    }
    *found = byte != EOF || interrupted || text->length > 0;
    if (text->length > 0 && text->data[text->length - 1] == '\r')
        text->length--;
    text->data[text->length] = '\0';
    return kvsi_text_check(text, err);
}

static void print_help(void)
{
    fputs("/reset begins a new conversation, /exit or Ctrl-D ends, Ctrl-C stops an answer\n",
          stderr);
}

/* Handles one line; *ends = the conversation is over. */
static kvs_status handle(int *ends, chat *c, const kvsi_text *line, kvs_err *err)
{
    kvs_err inner = {0};
    kvs_status st;

    if (line->data[strspn(line->data, " \t")] == '\0')
        return KVS_OK;
    *ends = strcmp(line->data, "/exit") == 0;
    if (*ends)
        return KVS_OK;
    if (strcmp(line->data, "/reset") == 0)
        return begin(c, err);
    if (c->on_terminal && line->data[0] == '/') {
        print_help();
        return KVS_OK;
    }
    if (!c->on_terminal)
        return answer(c, line->data, line->length, err);
    st = answer(c, line->data, line->length, &inner);
    if (st == KVS_E_NOMEM || st == KVS_OK)
        return st == KVS_OK ? KVS_OK : kvsi_fail(err, st, "%s", inner.message);
    fprintf(stderr, "kvshift: %s\n", inner.message); /* the conversation goes on */
    return KVS_OK;
}

static kvs_status converse(chat *c, kvs_err *err)
{
    kvsi_text line = {0};
    int found = 1, ends = 0;
    kvs_status st;

    TRY_OUT(begin(c, err));
    if (c->on_terminal) {
        TRY_OUT(kvsi_catch_interrupts(err));
        print_help();
    }
    while (!ends) {
        if (c->on_terminal) {
            kvsi_take_interrupt(); /* Ctrl-C after the end of an answer */
            fputs("> ", stderr);
        }
        TRY_OUT(read_line(&line, &found, c, err));
        if (!found)
            break;
        TRY_OUT(handle(&ends, c, &line, err));
    }
    if (c->on_terminal && !found)
        fputc('\n', stderr);
out:
    kvsi_text_release(&line);
    return st;
}

/* Ctrl-C also discards a line that is ready to be read, so a read of the terminal must not block.
 * The terminal is opened again, because the flag would hold for every process that shares this
 * standard input. */
static void open_terminal(chat *c)
{
    const char *name = ttyname(STDIN_FILENO);
    const int fd = name ? open(name, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC) : -1;

    c->on_terminal = 1;
    if (fd >= 0)
        c->input_fd = fd;
}

/* ---- setup ----------------------------------------------------------------------------------- */

static kvs_status load_template(chat *c, kvs_err *err)
{
    const settings *s = c->s;
    kvs_err inner = {0};
    const kvs_status st =
        kvs_chat_template_load(&c->template, s->input.model, s->template, c->m->tokenizer, &inner);

    if (st == KVS_OK)
        return KVS_OK;
    return kvsi_fail(err, st, "%s%s", inner.message, s->template ? "" : " (option --template)");
}

/* An answer ends with what the template puts behind it, as text and, if that is one token, as a
 * token that ends a text. */
static kvs_status set_stops(chat *c, kvs_err *err)
{
    const char *stop = kvs_chat_template_stop(c->template);
    const int32_t id = *stop ? kvs_tokenizer_find(c->m->tokenizer, stop) : -1;
    const int32_t *known;
    int32_t *ids;
    size_t count;
    kvs_status st;

    for (size_t i = 0; i < c->s->stops.count; i++)
        c->stops[c->stop_count++] = c->s->stops.texts[i];
    if (*stop)
        c->stops[c->stop_count++] = stop;
    if (id < 0)
        return KVS_OK;
    count = kvs_model_eos(c->m->model, &known);
    ids = kvsi_alloc(count + 1, sizeof *ids);
    if (!ids)
        return no_memory(err);
    if (count > 0)
        memcpy(ids, known, count * sizeof *ids);
    ids[count] = id;
    st = kvs_model_set_eos(c->m->model, ids, count + 1, err);
    kvsi_free(ids);
    return st;
}

static void set_defaults(void *data)
{
    settings *s = data;

    kvs_sampling_init(&s->sampling, sizeof s->sampling);
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const settings *s = data;
    const kvs_session_options how = {.size = sizeof(kvs_session_options),
                                     .cache = s->input.kv_cache};
    kvsi_loaded_model loaded = {0};
    chat c = {.s = s, .m = &loaded, .input_fd = STDIN_FILENO};
    kvs_status st;

    (void)call;
    if (isatty(STDIN_FILENO))
        open_terminal(&c);
    TRY_OUT(kvsi_model_input_load(&loaded, &s->input, 1, err));
    TRY_OUT(load_template(&c, err));
    TRY_OUT(set_stops(&c, err));
    TRY_OUT(kvsi_check_cache(loaded.model, &how, 1, "--kv-cache", err));
    TRY_OUT(kvs_session_create(&c.session, loaded.model, &how, err));
    c.messages = json_array();
    if (!c.messages) {
        st = no_memory(err);
        goto out;
    }
    st = converse(&c, err);
out:
    if (c.input_fd != STDIN_FILENO)
        close(c.input_fd);
    json_decref(c.messages);
    kvsi_text_release(&c.text);
    kvs_session_free(c.session);
    kvs_chat_template_free(c.template);
    kvsi_loaded_model_release(&loaded);
    return st;
}

const kvsi_command kvsi_cmd_chat = {
    .name = "chat",
    .summary = "talk with a model",
    .options = &options,
    .settings_size = sizeof(settings),
    .set_defaults = set_defaults,
    .run = run,
};
