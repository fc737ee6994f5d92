/* The body of a request for text.  The first byte chooses the endpoint: c, m, t or d. */
#include "base/status.h"
#include "fuzz.h"
#include "serve/jobs.h"

#include <string.h>

/* Makes a job of a request, as far as this is possible without a model. */
static kvs_status build(kvsi_request *r, kvsi_refusal *refusal)
{
    static kvs_tokenizer *bytes;
    static kvs_chat_template *raw;
    kvsi_job_source source = {.chat_stop_id = -1, .context = 1024};
    kvsi_job job = {.request = *r};
    kvs_status st;

    if (!bytes)
        fuzz_expect(kvs_tokenizer_load(&bytes, "bytes", NULL) == KVS_OK &&
                        kvs_chat_template_load(&raw, NULL, "raw", NULL, NULL) == KVS_OK,
                    "the tokenizer and the template");
    source.tokenizer = bytes;
    source.chat_template = raw;
    *r = (kvsi_request){0}; /* the job has it now */
    st = kvsi_job_build(&job, &source, 1, refusal);
    for (size_t i = 0; st == KVS_OK && i < job.prompt_count; i++)
        fuzz_expect(job.prompts[i].count > 0 &&
                        job.prompts[i].count + job.request.max_tokens <= source.context + 1,
                    "a job fits the context");
    kvsi_job_release(&job);
    return st;
}

kvs_status fuzz_run(const char *data, size_t size, kvs_err *err)
{
    static const char letters[] = "cmtd";
    static const kvsi_request_limits limits = {.vocab = 300, .samples = 8, .tokens = 1025};
    const char *letter = size > 0 && *data ? strchr(letters, *data) : NULL;
    const unsigned endpoint = letter ? 1u << (letter - letters) : KVSI_COMPLETIONS;
    kvsi_refusal refusal = {0};
    kvsi_request r;
    kvs_status st = kvsi_request_parse(&r, endpoint, size > 0 ? data + 1 : data,
                                       size > 0 ? size - 1 : 0, &limits, &refusal);

    if (st == KVS_OK && (endpoint & KVSI_GENERATES))
        st = build(&r, &refusal);
    fuzz_expect((st == KVS_OK) == (refusal.status == 0), "a refusal has a status");
    fuzz_expect(refusal.status == 0 || refusal.status == 400 || refusal.status == 503,
                "the status is that of a bad request");
    kvsi_request_release(&r);
    return st == KVS_OK ? KVS_OK : kvsi_fail(err, st, "%s", refusal.message);
}

void fuzz_seeds(void)
{
    fuzz_seed_text("texts", "c{\"model\": \"m\", \"prompt\": [\"a\", \"b c\"], \"max_tokens\": 3, "
                            "\"temperature\": 0.5, \"top_p\": 0.9, \"top_k\": 4, \"min_p\": 0.1, "
                            "\"n\": 2, \"best_of\": 2, \"seed\": -1, \"stop\": [\"x\", \"yz\"], "
                            "\"logit_bias\": {\"3\": -100, \"299\": 1.5}, \"user\": \"u\"}");
    fuzz_seed_text("ids", "c{\"prompt\": [[1, 2], [3]], \"max_tokens\": 0, \"echo\": true, "
                          "\"logprobs\": 1, \"cache_salt\": \"s\", \"stop_token_ids\": [2, 3], "
                          "\"return_token_ids\": true, \"suffix\": null}");
    fuzz_seed_text("stream", "c{\"prompt\": [5, 6], \"stream\": true, \"stream_options\": "
                             "{\"include_usage\": true}, \"min_tokens\": 1, \"ignore_eos\": true, "
                             "\"frequency_penalty\": 1, \"presence_penalty\": -1, "
                             "\"repetition_penalty\": 1.1}");
    fuzz_seed_text("chat",
                   "m{\"messages\": [{\"role\": \"system\", \"content\": \"a\"}, {\"role\": "
                   "\"user\", \"content\": [{\"type\": \"text\", \"text\": \"b\"}], "
                   "\"name\": \"n\"}, {\"role\": \"assistant\", \"content\": \"c\", "
                   "\"tool_calls\": []}], \"logprobs\": true, \"top_logprobs\": 2, "
                   "\"max_completion_tokens\": 4, \"tools\": [], \"tool_choice\": \"none\", "
                   "\"response_format\": {\"type\": \"text\"}, \"modalities\": [\"text\"], "
                   "\"continue_final_message\": true}");
    fuzz_seed_text("tokenize", "t{\"content\": \"a b\", \"add_special_tokens\": false}");
    fuzz_seed_text("detokenize", "d{\"tokens\": [1, 2, 3]}");
}
