/* A request of the page: the path, a line end, the body. */
#include "base/memory.h"
#include "base/status.h"
#include "fuzz.h"
#include "serve/lens_routes.h"

#include <stdio.h>
#include <string.h>

static const kvsi_lens_options *options(void)
{
    static kvsi_lens_options o;

    if (o.model_count > 0)
        return &o;
    o.models[0] = (kvsi_lens_model){.name = "m", .path = "."};
    fuzz_expect(kvs_tokenizer_load((kvs_tokenizer **)&o.models[0].tokenizer, "bytes", NULL) ==
                        KVS_OK &&
                    kvs_chat_template_load((kvs_chat_template **)&o.models[0].chat, NULL, "raw",
                                           NULL, NULL) == KVS_OK,
                "the tokenizer and the template");
    o.models[0].model =
        fuzz_model(&(kvs_model_config){SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1)});
    o.model_count = 1;
    o.runs = ".";
    return &o;
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    const char *end = memchr(data, '\n', size);
    const size_t length = end ? (size_t)(end - data) : size;
    const kvsi_lens_call call = {.options = options()};
    const kvsi_lens_route *route;
    kvsi_lens_answer out = {0};
    char path[64];
    kvs_status st;

    snprintf(path, sizeof path, "%.*s", (int)(length < sizeof path ? length : sizeof path), data);
    route = kvsi_lens_route_of(path);
    if (!route)
        return kvsi_fail(err, KVS_E_INVALID, "no such request");
    st = kvsi_lens_reply(&out, route, &call, end ? end + 1 : "", end ? size - length - 1 : 0, err);
    fuzz_expect((st == KVS_OK) == (out.body.data != NULL), "an answer has a body");
    kvsi_text_release(&out.body);
    return st;
}

void fuzz_seeds(void)
{
    fuzz_seed_text("model", "/lens/model\n");
    fuzz_seed_text("checkpoints", "/lens/checkpoints\n{\"model\": \"m\"}");
    fuzz_seed_text("text", "/lens/tokens\n{\"text\": \"a b\"}");
    fuzz_seed_text("messages", "/lens/tokens\n{\"messages\": [{\"role\": \"user\", \"content\": "
                               "\"a\"}]}");
    fuzz_seed_text("ids", "/lens/tokens\n{\"ids\": [1, 2]}");
    fuzz_seed_text("run", "/lens/run\n{\"ids\": [1, 2], \"top\": 3, \"edits\": [{\"layer\": 0, "
                          "\"head\": 0, \"target\": \"k\", \"taps\": [0.5, 1]}]}");
    fuzz_seed_text("repeated", "/lens/repeated\n{\"length\": 3, \"seed\": 2}");
    fuzz_seed_text("scores", "/lens/scores\n{\"ids\": [1, 2, 1]}");
    fuzz_seed_text("attention", "/lens/attention\n{\"ids\": [1, 2], \"layer\": 0, \"head\": 0}");
    fuzz_seed_text("runs", "/lens/runs\n");
}
