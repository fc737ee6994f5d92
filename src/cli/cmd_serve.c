/* kvshift serve: answers HTTP requests with one model. */
#include "base/clock.h"
#include "base/files.h"
#include "base/machine.h"
#include "base/memory.h"
#include "cli/cli.h"
#include "cli/configs.h"
#include "cli/memory_check.h"
#include "cli/model_input.h"
#include "kvshift/kvshift_files.h"

#ifdef KVSI_HAVE_MICROHTTPD
#include "serve/server.h"
#endif

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

typedef struct settings {
    kvsi_model_input input;
    const char *template, *alias;
    const char *host, *key_file;
    kvsi_text_list allowed_hosts;
    size_t port, connections, body_bytes, http_seconds;
    int strict_model;
    size_t context, slots, queue, slice_ms, request_seconds, drain_seconds;
    const char *compare, *runs;
    size_t prefix_bytes; /* SIZE_MAX = automatic */
} settings;

#define FIELD(name) offsetof(settings, name)

/* clang-format off */
static const kvsi_setting rows[] = {
    KVSI_MODEL_ROWS(settings),
    {.name = "template", .kind = KVSI_SETTING_TEXT, .offset = FIELD(template), .group = "Input",
     .placeholder = "NAME",
     .help = "chat template: chatml, llama2, llama3, mistral, zephyr, phi3, gemma, raw, or a file",
     .automatic = "the model's, if it has one"},
    {.name = "alias", .kind = KVSI_SETTING_TEXT, .offset = FIELD(alias), .group = "Input",
     .placeholder = "NAME", .help = "name of the model in answers",
     .automatic = "the last part of its path"},
    {.name = "host", .kind = KVSI_SETTING_TEXT, .offset = FIELD(host), .group = "Server",
     .placeholder = "HOST", .value = "127.0.0.1",
     .help = "address to listen on; one that other machines reach needs --api-key-file"},
    {.name = "port", .kind = KVSI_SETTING_SIZE, .offset = FIELD(port), .group = "Server",
     .placeholder = "N", .value = "8080", .high = 65535, .help = "port; 0 = any that is free"},
    {.name = "api-key-file", .kind = KVSI_SETTING_TEXT, .offset = FIELD(key_file),
     .group = "Server", .placeholder = "FILE",
     .help = "file with API keys, one on each line; requests need one of them",
     .automatic = "no key is needed"},
    {.name = "allowed-host", .kind = KVSI_SETTING_TEXT, .offset = FIELD(allowed_hosts),
     .group = "Server", .placeholder = "NAME", .repeats = 1,
     .help = "another name of this server in the header Host; may be given several times"},
    {.name = "strict-model", .kind = KVSI_SETTING_FLAG, .offset = FIELD(strict_model),
     .group = "Server", .help = "refuse requests that name another model"},
    {.name = "connections", .kind = KVSI_SETTING_SIZE, .offset = FIELD(connections),
     .group = "Server", .placeholder = "N", .value = "256", .low = 1, .high = 65536,
     .help = "maximum number of connections"},
    {.name = "body-limit", .kind = KVSI_SETTING_SIZE, .offset = FIELD(body_bytes),
     .group = "Server", .placeholder = "BYTES", .value = "4194304", .low = 1024,
     .high = 1073741824, .help = "maximum size of a request"},
    {.name = "http-timeout", .kind = KVSI_SETTING_SIZE, .offset = FIELD(http_seconds),
     .group = "Server", .placeholder = "S", .value = "60", .low = 1, .high = 86400,
     .help = "seconds in which a request has to arrive, and an answer has to be taken"},
    {.name = "request-timeout", .kind = KVSI_SETTING_SIZE, .offset = FIELD(request_seconds),
     .group = "Server", .placeholder = "S", .value = "600", .low = 1, .high = 604800,
     .help = "seconds after which a request is given up"},
    {.name = "drain-timeout", .kind = KVSI_SETTING_SIZE, .offset = FIELD(drain_seconds),
     .group = "Server", .placeholder = "S", .value = "30", .high = 86400,
     .help = "seconds for open requests after SIGTERM or SIGINT; a second signal ends at once"},
    {.name = "ctx", .kind = KVSI_SETTING_SIZE, .offset = FIELD(context), .group = "Scheduling",
     .placeholder = "N", .help = "maximum number of tokens of a prompt with its answer",
     .automatic = "the model's context"},
    {.name = "slots", .kind = KVSI_SETTING_SIZE, .offset = FIELD(slots), .group = "Scheduling",
     .placeholder = "N", .value = "8", .low = 1, .high = 1024,
     .help = "number of texts that are generated at the same time"},
    {.name = "queue", .kind = KVSI_SETTING_SIZE, .offset = FIELD(queue), .group = "Scheduling",
     .placeholder = "N", .value = "128", .high = 65536,
     .help = "maximum number of requests that wait"},
    {.name = "slice-ms", .kind = KVSI_SETTING_SIZE, .offset = FIELD(slice_ms),
     .group = "Scheduling", .placeholder = "MS", .value = "50", .low = 1, .high = 60000,
     .help = "time for prompts in a pass while texts are generated"},
    {.name = "prefix-cache", .kind = KVSI_SETTING_OPTIONAL, .offset = FIELD(prefix_bytes),
     .group = "Scheduling", .placeholder = "BYTES",
     .help = "memory for prompts that later requests may begin with; 0 = none",
     .automatic = "1 GiB, at most a quarter of the free memory"},
    {.name = "compare", .kind = KVSI_SETTING_TEXT, .offset = FIELD(compare), .group = "Page",
     .placeholder = "MODEL", .help = "a second model, which the page shows beside the first"},
    {.name = "runs", .kind = KVSI_SETTING_TEXT, .offset = FIELD(runs), .group = "Page",
     .placeholder = "DIR", .help = "a run folder, or a folder of them, with curves for the page"},
    KVSI_SPEED_ROWS(settings),
};
/* clang-format on */

static const kvsi_command_options options = {
    .command = "kvshift serve",
    .examples = "  kvshift serve -m runs/book\n"
                "  kvshift serve -m model.gguf --host 0.0.0.0 --api-key-file keys\n"
                "  curl localhost:8080/v1/completions -d '{\"prompt\": \"It was\"}'\n",
    .purpose = "Answers HTTP requests with a model: completions, chats and log-probabilities, in "
               "the format of OpenAI's API.",
    .notes = "The server always runs in exact mode: an answer has the same bytes alone, beside "
             "others, and after\na prefix that was stored.  docs/serving.md has the paths, the "
             "fields of requests, and examples.\nThe server ends with exit code 0 after SIGTERM or "
             "SIGINT.",
    .tables = KVSI_OPTIONS(rows),
    .takes_config = 1,
};

#ifdef KVSI_HAVE_MICROHTTPD

enum { PASS_TOKENS = 256 };

/* Names that a client sees: no folders. */
static const char *last_part(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash && slash[1] ? slash + 1 : path;
}

static const char *model_name(const settings *s)
{
    return s->alias ? s->alias : last_part(s->input.model);
}

/* What the page can look at.  The second model must have another name than the first. */
static kvsi_lens_options page_options(const settings *s, const kvsi_loaded_model *loaded,
                                      const kvs_chat_template *chat_template,
                                      const kvsi_loaded_model *second)
{
    kvsi_lens_options o = {
        .models = {{.name = model_name(s),
                    .path = s->input.model,
                    .model = loaded->model,
                    .tokenizer = loaded->tokenizer,
                    .chat = chat_template}},
        .model_count = 1,
        .runs = s->runs,
    };

    if (second->model) {
        const char *name = last_part(s->compare);

        o.models[o.model_count++] =
            (kvsi_lens_model){.name = strcmp(name, o.models[0].name) == 0 ? "second model" : name,
                              .path = s->compare,
                              .model = second->model,
                              .tokenizer = second->tokenizer};
    }
    return o;
}

static kvs_status load_second(kvsi_loaded_model *out, const settings *s, kvs_err *err)
{
    kvsi_model_input input = s->input;

    if (s->runs && !kvsi_is_folder(s->runs))
        return kvsi_fail(err, KVS_E_INVALID, "option '--runs': '%s' is not a folder", s->runs);
    if (!s->compare)
        return KVS_OK;
    input.model = s->compare;
    input.tokenizer = NULL; /* its own */
    return kvsi_model_input_load(out, &input, 1, err);
}

/* *out stays NULL if the model has no template that can be used and none was named; `why` then has
 * the reason. */
static kvs_status load_template(kvs_chat_template **out, kvs_err *why, const settings *s,
                                const kvs_tokenizer *tokenizer, kvs_err *err)
{
    const kvs_status st = kvs_chat_template_load(out, s->input.model, s->template, tokenizer, why);

    if (st == KVS_E_NOMEM || (st != KVS_OK && s->template))
        return kvsi_fail(err, st, "%s", why->message);
    return KVS_OK;
}

static kvs_status check_sizes(kvsi_server_options *o, const settings *s, kvs_err *err)
{
    const kvs_model *model = o->engine.model;
    const size_t context = kvsi_model_count(kvs_model_get_config(model), "context");
    kvs_session_options session = {.size = sizeof session, .cache = s->input.kv_cache};
    const double memory = kvsi_machine_free_memory("", 1);
    uint64_t caches;

    o->engine.context = s->context > 0 ? s->context : context;
    if (o->engine.context > context)
        return kvsi_fail(err, KVS_E_INVALID, "option '--ctx' is %zu, the model's context is %zu",
                         s->context, context);
    session.capacity = o->engine.context;
    caches = s->slots * kvs_session_bytes(kvs_model_get_config(model), &session);
    o->engine.prefix_bytes = s->prefix_bytes;
    if (s->prefix_bytes == SIZE_MAX) {
        o->engine.prefix_bytes = 1 << 30;
        if (memory > 0 && memory / 4 < (double)o->engine.prefix_bytes)
            o->engine.prefix_bytes = (uint64_t)(memory / 4);
    }
    return kvsi_check_memory(caches + o->engine.prefix_bytes, NULL,
                             "--slots, --ctx, --prefix-cache and --kv-cache", err);
}

static sigset_t stop_signals(void)
{
    sigset_t set;

    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    return set;
}

/* Waits for a signal, then for the answers to open requests. */
static void wait_for_end(kvsi_server *server, const settings *s)
{
    const struct timespec turn = {.tv_nsec = 20 * 1000 * 1000};
    const sigset_t signals = stop_signals();
    double end;
    int number;

    while (sigwait(&signals, &number) != 0)
        ;
    kvsi_server_drain(server);
    end = kvsi_clock_seconds() + (double)s->drain_seconds;
    while (!kvsi_server_is_idle(server) && kvsi_clock_seconds() < end)
        if (sigtimedwait(&signals, NULL, &turn) > 0)
            return;
}

static kvs_status serve(const settings *s, const kvsi_loaded_model *loaded,
                        const kvs_chat_template *chat_template, const kvsi_loaded_model *second,
                        const char *why_none, kvs_err *err)
{
    kvsi_server_options o = {
        .host = s->host,
        .port = (unsigned)s->port,
        .connections = s->connections,
        .body_bytes = s->body_bytes,
        .http_seconds = (double)s->http_seconds,
        .key_file = s->key_file,
        .allowed_hosts = s->allowed_hosts.texts,
        .allowed_count = s->allowed_hosts.count,
        .engine = {.model = loaded->model,
                   .tokenizer = loaded->tokenizer,
                   .slots = s->slots,
                   .pass_tokens = s->slots > PASS_TOKENS / 2 ? 2 * s->slots : PASS_TOKENS,
                   .queue = s->queue,
                   .cache = s->input.kv_cache,
                   .slice_seconds = (double)s->slice_ms / 1e3,
                   .job_seconds = (double)s->request_seconds},
        .chat_template = chat_template,
        .model_name = model_name(s),
        .lens = page_options(s, loaded, chat_template, second),
        .strict_model = s->strict_model,
    };
    const int is_v6 = strchr(s->host, ':') != NULL;
    kvsi_server *server;

    TRY(check_sizes(&o, s, err));
    TRY(kvsi_server_start(&server, &o, err));
    fprintf(stderr, "kvshift: serving '%s' at http://%s%s%s:%u\n", o.model_name, is_v6 ? "[" : "",
            s->host, is_v6 ? "]" : "", kvsi_server_port(server));
    if (!chat_template)
        fprintf(stderr, "kvshift: no chats: %s (option --template)\n", why_none);
    wait_for_end(server, s);
    kvsi_server_free(server);
    return KVS_OK;
}

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    const sigset_t signals = stop_signals();
    settings *s = data;
    kvsi_loaded_model loaded = {0}, second = {0};
    kvs_chat_template *chat_template = NULL;
    kvs_err why = {0};
    kvs_status st;

    (void)call;
    /* All threads inherit this, so that only wait_for_end() takes the signals. */
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    signal(SIGPIPE, SIG_IGN);
    s->input.exact = 1;
    TRY_OUT(kvsi_model_input_load(&loaded, &s->input, 1, err));
    TRY_OUT(load_second(&second, s, err));
    TRY_OUT(load_template(&chat_template, &why, s, loaded.tokenizer, err));
    st = serve(s, &loaded, chat_template, &second, why.message, err);
out:
    kvs_chat_template_free(chat_template);
    kvsi_loaded_model_release(&second);
    kvsi_loaded_model_release(&loaded);
    return st;
}

#else

static kvs_status run(void *data, const kvsi_call *call, kvs_err *err)
{
    (void)data;
    (void)call;
    return kvsi_fail(err, KVS_E_UNSUPPORTED,
                     "this build has no HTTP server, because libmicrohttpd was missing (Debian: "
                     "libmicrohttpd-dev)");
}

#endif

const kvsi_command kvsi_cmd_serve = {
    .name = "serve",
    .summary = "answer HTTP requests with a model",
    .options = &options,
    .settings_size = sizeof(settings),
    .run = run,
};
