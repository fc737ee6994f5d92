/* serve/request.h - the body of a request for text, checked field by field.
 *
 * One table has every field: its name, the endpoints that take it, type, limits, default and help.
 * Nothing else reads the JSON.  null means that a field is not given.  Fields that would change the
 * answer and are not supported are refused by name; names that the table does not have are ignored,
 * and the answer lists them in a header. */
#ifndef KVSI_SERVE_REQUEST_H
#define KVSI_SERVE_REQUEST_H

#include "base/json.h"
#include "serve/refusal.h"

/* Endpoints, as bits of a field's row. */
enum {
    KVSI_COMPLETIONS = 1,
    KVSI_CHAT = 2,
    KVSI_TOKENIZE = 4,
    KVSI_DETOKENIZE = 8,
    KVSI_GENERATES = KVSI_COMPLETIONS | KVSI_CHAT
};

enum {
    KVSI_PROMPTS_MAX = 1024,      /* of a request */
    KVSI_PROMPT_TOKENS = 1 << 20, /* of all of them */
    KVSI_STOPS_MAX = 4,
    KVSI_STOP_BYTES = 1024, /* of a stop string */
    KVSI_STOP_IDS_MAX = 64,
    KVSI_BIASES_MAX = 1024,
    KVSI_TOP_MAX = 20, /* alternatives of a token */
    KVSI_MESSAGES_MAX = 4096,
    KVSI_NESTING_MAX = 16,
};

typedef struct kvsi_request_limits {
    size_t vocab;   /* ids of prompts are below; biases too */
    size_t samples; /* largest n */
    size_t tokens;  /* largest max_tokens: the context + 1 */
} kvsi_request_limits;

/* A prompt: text, or ids that nothing is added to. */
typedef struct kvsi_prompt {
    const char *text; /* borrowed from the body; NULL = ids */
    size_t size;
    int32_t *ids;
    size_t count;
} kvsi_prompt;

typedef struct kvsi_bias {
    int32_t id;
    float bias;
} kvsi_bias;

typedef struct kvsi_request {
    unsigned endpoint;
    json_t *body; /* owned; the texts below are borrowed from it */
    const char *model, *salt;
    kvsi_prompt *prompts;
    size_t prompt_count;
    json_t *messages; /* owned: checked, and with text as content */

    size_t max_tokens; /* SIZE_MAX = not given */
    size_t min_tokens, n, best_of, top_k;
    double temperature, top_p, min_p;
    double repetition_penalty, frequency_penalty, presence_penalty;
    uint64_t seed;
    int has_seed, ignore_eos;
    const char *stops[KVSI_STOPS_MAX];
    size_t stop_count;
    int32_t stop_ids[KVSI_STOP_IDS_MAX];
    size_t stop_id_count;
    kvsi_bias *biases;
    size_t bias_count;

    int logprobs; /* log-probabilities are wanted, with `top` alternatives */
    size_t top;
    int echo, stream, include_usage, return_ids;
    int add_special; /* BOS, as the tokenizer adds it */
    int add_generation_prompt, continues;

    kvsi_text ignored; /* names that the table does not have, with commas */
} kvsi_request;

/* Checks nesting and number of values before a parser sees the text: its memory and its stack grow
 * with them. */
kvs_status kvsi_request_check_shape(const char *text, size_t size, kvsi_refusal *refusal);
/* Parses and checks a body.  The request must be released in any case. */
kvs_status kvsi_request_parse(kvsi_request *r, unsigned endpoint, const char *text, size_t size,
                              const kvsi_request_limits *limits, kvsi_refusal *refusal);
void kvsi_request_release(kvsi_request *r);

/* Appends the table as a JSON array of objects: name, endpoints, type, limits, default, help. */
void kvsi_request_describe(kvsi_text *out, const kvsi_request_limits *limits);

/* The rows of the table, for tests: name and endpoints of row `index`; NULL past the end. */
const char *kvsi_request_field(size_t index, unsigned *endpoints);

#endif
