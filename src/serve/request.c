#include "serve/request.h"

#include "base/memory.h"
#include "serve/json_out.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct reading {
    kvsi_request *r;
    const kvsi_request_limits *limits;
    kvsi_refusal *refusal;
} reading;

typedef enum kind {
    FLAG,    /* int */
    WHOLE,   /* size_t */
    REAL,    /* double */
    TEXT,    /* const char * */
    OTHER,   /* `read` does everything */
    REFUSED, /* only values that mean nothing are accepted: `means_nothing` */
} kind;

typedef struct field field;
struct field {
    const char *name;
    unsigned endpoints;
    kind kind;
    size_t offset;
    double low, high; /* of a number; high 0 = from `limit` */
    size_t (*limit)(const kvsi_request_limits *limits);
    const char *value; /* the default, for the description */
    kvs_status (*read)(reading *in, const field *f, const json_t *value);
    int (*means_nothing)(const json_t *value);
    const char *type; /* of OTHER, for messages and the description */
    const char *help;
};

/* ---- messages -------------------------------------------------------------------------------- */

static kvs_status wrong_type(const reading *in, const field *f, const json_t *value)
{
    return kvsi_refuse(in->refusal, 400, "invalid_type", f->name,
                       "field '%s': expected %s, found %s", f->name, f->type,
                       kvsi_json_found(value));
}

static kvs_status no_memory(const reading *in)
{
    return kvsi_refuse_memory(in->refusal, "the request");
}

/* ---- fields of their own kind ---------------------------------------------------------------- */

static kvs_status read_ids(reading *in, const field *f, int32_t *out, const json_t *list)
{
    const json_t *value;
    size_t i;

    json_array_foreach(list, i, value) {
        const json_int_t id = json_integer_value(value);

        if (!json_is_integer(value))
            return kvsi_refuse(in->refusal, 400, "invalid_type", f->name,
                               "field '%s': element %zu: expected the id of a token, found %s",
                               f->name, i, kvsi_json_found(value));
        if (id < 0 || (uint64_t)id >= in->limits->vocab)
            return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                               "field '%s': element %zu: expected an id from 0 to %zu, found %lld",
                               f->name, i, in->limits->vocab - 1, (long long)id);
        out[i] = (int32_t)id;
    }
    return KVS_OK;
}

static kvs_status set_ids(reading *in, const field *f, kvsi_prompt *prompt, const json_t *list)
{
    prompt->count = json_array_size(list);
    if (prompt->count == 0 || prompt->count > KVSI_PROMPT_TOKENS)
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                           "field '%s': a prompt has %zu tokens, expected 1 to %d", f->name,
                           prompt->count, KVSI_PROMPT_TOKENS);
    prompt->ids = kvsi_alloc(prompt->count, sizeof *prompt->ids);
    return prompt->ids ? read_ids(in, f, prompt->ids, list) : no_memory(in);
}

static kvs_status set_prompt(reading *in, const field *f, kvsi_prompt *prompt, const json_t *value)
{
    if (json_is_array(value))
        return set_ids(in, f, prompt, value);
    prompt->text = json_string_value(value);
    prompt->size = json_string_length(value);
    if (prompt->size == 0)
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name, "field '%s': it is empty",
                           f->name);
    return KVS_OK;
}

/* A text, a list of texts, a list of ids, or a list of lists of ids. */
static kvs_status read_prompt(reading *in, const field *f, const json_t *value)
{
    const json_t *const first = json_array_get(value, 0);
    const int is_one = json_is_string(value) || json_is_integer(first);
    const size_t count = is_one ? 1 : json_array_size(value);
    kvsi_request *r = in->r;

    if (!json_is_string(value) && !json_is_array(value))
        return wrong_type(in, f, value);
    if (count == 0 || count > KVSI_PROMPTS_MAX)
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                           "field '%s': %zu prompts, expected 1 to %d", f->name, count,
                           KVSI_PROMPTS_MAX);
    r->prompts = kvsi_alloc(count, sizeof *r->prompts);
    if (!r->prompts)
        return no_memory(in);
    r->prompt_count = count;
    for (size_t i = 0; i < count; i++) {
        const json_t *one = is_one ? value : json_array_get(value, i);

        if (!is_one && json_typeof(one) != json_typeof(first))
            return kvsi_refuse(in->refusal, 400, "invalid_type", f->name,
                               "field '%s': element %zu is %s, the first is %s", f->name, i,
                               kvsi_json_found(one), kvsi_json_found(first));
        if (!json_is_string(one) && !json_is_array(one))
            return wrong_type(in, f, one);
        TRY(set_prompt(in, f, &r->prompts[i], one));
    }
    return KVS_OK;
}

/* The text of /tokenize, which may be empty. */
static kvs_status read_text(reading *in, const field *f, const json_t *value)
{
    kvsi_request *r = in->r;

    if (!json_is_string(value))
        return wrong_type(in, f, value);
    if (!r->prompts)
        r->prompts = kvsi_alloc(1, sizeof *r->prompts);
    if (!r->prompts)
        return no_memory(in);
    r->prompt_count = 1;
    r->prompts->text = json_string_value(value);
    r->prompts->size = json_string_length(value);
    return KVS_OK;
}

/* The ids of /detokenize: a list, which may be empty. */
static kvs_status read_tokens(reading *in, const field *f, const json_t *value)
{
    kvsi_request *r = in->r;

    if (!json_is_array(value))
        return wrong_type(in, f, value);
    r->prompts = kvsi_alloc(1, sizeof *r->prompts);
    if (!r->prompts)
        return no_memory(in);
    r->prompt_count = 1;
    r->prompts->count = json_array_size(value);
    r->prompts->ids = kvsi_alloc(r->prompts->count, sizeof *r->prompts->ids);
    return r->prompts->ids ? read_ids(in, f, r->prompts->ids, value) : no_memory(in);
}

static kvs_status read_stop(reading *in, const field *f, const json_t *value)
{
    kvsi_request *r = in->r;

    if (!json_is_string(value) && !json_is_array(value))
        return wrong_type(in, f, value);
    r->stop_count = json_is_string(value) ? 1 : json_array_size(value);
    if (r->stop_count > KVSI_STOPS_MAX)
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                           "field '%s': %zu texts, expected at most %d", f->name, r->stop_count,
                           KVSI_STOPS_MAX);
    for (size_t i = 0; i < r->stop_count; i++) {
        const json_t *one = json_is_string(value) ? value : json_array_get(value, i);

        if (!json_is_string(one))
            return wrong_type(in, f, one);
        if (json_string_length(one) == 0 || json_string_length(one) > KVSI_STOP_BYTES)
            return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                               "field '%s': a text has %zu bytes, expected 1 to %d", f->name,
                               json_string_length(one), KVSI_STOP_BYTES);
        r->stops[i] = json_string_value(one);
    }
    return KVS_OK;
}

static kvs_status read_stop_ids(reading *in, const field *f, const json_t *value)
{
    if (!json_is_array(value))
        return wrong_type(in, f, value);
    if (json_array_size(value) > KVSI_STOP_IDS_MAX)
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                           "field '%s': %zu ids, expected at most %d", f->name,
                           json_array_size(value), KVSI_STOP_IDS_MAX);
    in->r->stop_id_count = json_array_size(value);
    return read_ids(in, f, in->r->stop_ids, value);
}

static kvs_status read_seed(reading *in, const field *f, const json_t *value)
{
    if (!json_is_integer(value))
        return wrong_type(in, f, value);
    in->r->has_seed = 1;
    in->r->seed = (uint64_t)json_integer_value(value);
    return KVS_OK;
}

static kvs_status read_biases(reading *in, const field *f, const json_t *value)
{
    kvsi_request *r = in->r;
    const char *key;
    json_t *bias;

    if (!json_is_object(value))
        return wrong_type(in, f, value);
    if (json_object_size(value) > KVSI_BIASES_MAX)
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                           "field '%s': %zu tokens, expected at most %d", f->name,
                           json_object_size(value), KVSI_BIASES_MAX);
    r->biases = kvsi_alloc(json_object_size(value), sizeof *r->biases);
    if (!r->biases)
        return no_memory(in);
    json_object_foreach((json_t *)value, key, bias) {
        const size_t digits = strspn(key, "0123456789");
        const unsigned long id = digits > 0 && digits < 10 ? strtoul(key, NULL, 10) : 0;
        const double number = json_number_value(bias);

        if (digits == 0 || digits > 9 || key[digits] || id >= in->limits->vocab)
            return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                               "field '%s': expected ids from 0 to %zu, found '%.20s'", f->name,
                               in->limits->vocab - 1, key);
        if (!json_is_number(bias) || !(number >= -100 && number <= 100))
            return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                               "field '%s': token %lu: expected a number from -100 to 100", f->name,
                               id);
        r->biases[r->bias_count++] = (kvsi_bias){(int32_t)id, (float)number};
    }
    return KVS_OK;
}

static kvs_status read_stream_options(reading *in, const field *f, const json_t *value)
{
    const json_t *usage = json_object_get(value, "include_usage");

    if (!json_is_object(value) || (usage && !json_is_boolean(usage) && !json_is_null(usage)))
        return wrong_type(in, f, value);
    in->r->include_usage = json_is_true(usage) ? 1 : -1; /* -1 = given */
    return KVS_OK;
}

/* In completions it is the number of alternatives. */
static kvs_status read_top(reading *in, const field *f, const json_t *value)
{
    const json_int_t top = json_integer_value(value);

    if (!json_is_integer(value))
        return wrong_type(in, f, value);
    if (top < 0 || top > KVSI_TOP_MAX)
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                           "field '%s': expected 0 to %d, found %lld", f->name, KVSI_TOP_MAX,
                           (long long)top);
    in->r->logprobs = 1;
    in->r->top = (size_t)top;
    return KVS_OK;
}

/* ---- messages of a conversation ---- */

static kvs_status wrong_message(const reading *in, size_t index, const char *what)
{
    return kvsi_refuse(in->refusal, 400, "invalid_value", "messages",
                       "field 'messages': message %zu: %s", index, what);
}

/* The text of a message: a string, or parts of type text, joined by line ends. */
static json_t *content_of(const json_t *content)
{
    kvsi_text joined = {0};
    const json_t *part;
    json_t *text;
    size_t i;

    if (json_is_string(content))
        return json_incref((json_t *)content);
    if (!json_is_array(content) || json_array_size(content) == 0)
        return NULL;
    json_array_foreach(content, i, part) {
        const char *type = json_string_value(json_object_get(part, "type"));
        const json_t *words = json_object_get(part, "text");

        if (!type || strcmp(type, "text") != 0 || !json_is_string(words)) {
            kvsi_text_release(&joined);
            return NULL;
        }
        kvsi_text_add(&joined, i > 0 ? "\n" : "");
        kvsi_text_add(&joined, json_string_value(words));
    }
    text = joined.failed ? NULL : json_stringn(joined.data, joined.length);
    kvsi_text_release(&joined);
    return text;
}

/* Keys of messages that other values than null or nothing would give a meaning. */
static int is_nothing(const json_t *value)
{
    return json_is_null(value) || json_is_false(value) ||
           (json_is_string(value) && json_string_length(value) == 0) ||
           (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

static kvs_status read_message(reading *in, size_t index, const json_t *value)
{
    static const char *const roles[] = {"system", "user", "assistant", "tool", "developer"};
    const char *role = json_string_value(json_object_get(value, "role"));
    json_t *message, *content;
    const char *key;
    json_t *member;
    size_t known = 0;

    if (!json_is_object(value))
        return wrong_message(in, index, "expected an object");
    while (known < 5 && (!role || strcmp(role, roles[known]) != 0))
        known++;
    if (known == 5)
        return wrong_message(in, index,
                             "'role': expected system, developer, user, assistant or tool");
    json_object_foreach((json_t *)value, key, member) {
        const int is_text = strcmp(key, "name") == 0 || strcmp(key, "tool_call_id") == 0;

        if (strcmp(key, "role") == 0 || strcmp(key, "content") == 0 || is_nothing(member) ||
            (is_text && json_is_string(member)))
            continue;
        return kvsi_refuse(in->refusal, 400, "unsupported", "messages",
                           "field 'messages': message %zu: '%.40s' is not supported", index, key);
    }
    content = content_of(json_object_get(value, "content"));
    if (!content)
        return wrong_message(in, index, "'content': expected text or parts of type text");
    message = json_pack("{s:s, s:o}", "role", known == 4 ? "system" : role, "content", content);
    if (!message)
        return no_memory(in);
    if (json_is_string(json_object_get(value, "name")))
        json_object_set(message, "name", json_object_get(value, "name"));
    if (json_is_string(json_object_get(value, "tool_call_id")))
        json_object_set(message, "tool_call_id", json_object_get(value, "tool_call_id"));
    return json_array_append_new(in->r->messages, message) == 0 ? KVS_OK : no_memory(in);
}

static kvs_status read_messages(reading *in, const field *f, const json_t *value)
{
    const json_t *message;
    size_t i;

    if (!json_is_array(value))
        return wrong_type(in, f, value);
    if (json_array_size(value) == 0 || json_array_size(value) > KVSI_MESSAGES_MAX)
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                           "field '%s': %zu messages, expected 1 to %d", f->name,
                           json_array_size(value), KVSI_MESSAGES_MAX);
    in->r->messages = json_array();
    if (!in->r->messages)
        return no_memory(in);
    json_array_foreach(value, i, message)
        TRY(read_message(in, i, message));
    return KVS_OK;
}

/* ---- values that mean nothing ---- */

static int is_none_or_auto(const json_t *value)
{
    const char *text = json_string_value(value);

    return text && (strcmp(text, "none") == 0 || strcmp(text, "auto") == 0);
}

static int is_zero(const json_t *value)
{
    return is_nothing(value) || (json_is_number(value) && json_number_value(value) == 0);
}

static int is_one(const json_t *value)
{
    return json_is_number(value) && json_number_value(value) == 1;
}

static int is_text_format(const json_t *value)
{
    const char *type = json_string_value(json_object_get(value, "type"));

    return type && strcmp(type, "text") == 0;
}

static int is_text_only(const json_t *value)
{
    const char *only = json_string_value(json_array_get(value, 0));

    return json_array_size(value) == 1 && only && strcmp(only, "text") == 0;
}

/* ---- the table ------------------------------------------------------------------------------- */

static size_t samples_limit(const kvsi_request_limits *limits)
{
    return limits->samples;
}

static size_t tokens_limit(const kvsi_request_limits *limits)
{
    return limits->tokens;
}

static size_t vocab_limit(const kvsi_request_limits *limits)
{
    return limits->vocab;
}

#define AT(member) .offset = offsetof(kvsi_request, member)

/* clang-format off */
static const field fields[] = {
    {"model", KVSI_GENERATES | KVSI_TOKENIZE | KVSI_DETOKENIZE, TEXT, AT(model),
     .help = "any name; the answer has the name of the model that is served"},
    {"prompt", KVSI_COMPLETIONS, OTHER, .read = read_prompt,
     .type = "text, a list of texts, a list of ids, or a list of lists of ids",
     .help = "texts get BOS as the tokenizer adds it, ids nothing; required"},
    {"prompt", KVSI_TOKENIZE, OTHER, .read = read_text, .type = "text",
     .help = "the text; required"},
    {"content", KVSI_TOKENIZE, OTHER, .read = read_text, .type = "text",
     .help = "another name for 'prompt'"},
    {"tokens", KVSI_DETOKENIZE, OTHER, .read = read_tokens, .type = "a list of ids",
     .help = "the ids; required"},
    {"messages", KVSI_CHAT, OTHER, .read = read_messages, .type = "a list of messages",
     .help = "role and content of each; content is text or parts of type text; required"},
    {"max_tokens", KVSI_GENERATES, WHOLE, AT(max_tokens), 0, .limit = tokens_limit, .value = "16; "
     "chat: the rest of the context", .help = "largest number of new tokens; 0 with 'echo' scores"},
    {"max_completion_tokens", KVSI_CHAT, WHOLE, AT(max_tokens), 0, .limit = tokens_limit,
     .help = "another name for 'max_tokens'"},
    {"min_tokens", KVSI_GENERATES, WHOLE, AT(min_tokens), 0, .limit = tokens_limit, .value = "0",
     .help = "no token that ends the text before this many new tokens"},
    {"n", KVSI_GENERATES, WHOLE, AT(n), 1, .limit = samples_limit, .value = "1",
     .help = "number of samples for each prompt; sample i has the seed + i"},
    {"best_of", KVSI_COMPLETIONS, WHOLE, AT(best_of), 1, .limit = samples_limit,
     .help = "only the value of 'n'"},
    {"temperature", KVSI_GENERATES, REAL, AT(temperature), 0, 2, .value = "1",
     .help = "below 1e-5 the most likely token is taken"},
    {"top_p", KVSI_GENERATES, REAL, AT(top_p), 1e-9, 1, .value = "1",
     .help = "the most likely tokens whose probabilities sum to this"},
    {"top_k", KVSI_GENERATES, WHOLE, AT(top_k), -1, .limit = vocab_limit, .value = "0",
     .help = "number of most likely tokens; 0 and -1 = all"},
    {"min_p", KVSI_GENERATES, REAL, AT(min_p), 0, 1, .value = "0",
     .help = "least probability, as a share of the highest one"},
    {"repetition_penalty", KVSI_GENERATES, REAL, AT(repetition_penalty), 1e-3, 1e3, .value = "1",
     .help = "divides positive logits of tokens of prompt and answer, multiplies negative ones"},
    {"frequency_penalty", KVSI_GENERATES, REAL, AT(frequency_penalty), -2, 2, .value = "0",
     .help = "subtracted from a logit for each time that the token was generated"},
    {"presence_penalty", KVSI_GENERATES, REAL, AT(presence_penalty), -2, 2, .value = "0",
     .help = "subtracted from the logits of tokens that were generated"},
    {"logit_bias", KVSI_GENERATES, OTHER, .read = read_biases,
     .type = "an object of ids and numbers", .help = "added to logits; at most 1024 tokens"},
    {"seed", KVSI_GENERATES, OTHER, .read = read_seed, .type = "a whole number",
     .value = "drawn, and returned", .help = "the same seed gives the same answer"},
    {"stop", KVSI_GENERATES, OTHER, .read = read_stop, .type = "text or a list of texts",
     .help = "the answer ends before any of these; at most 4"},
    {"stop_token_ids", KVSI_GENERATES, OTHER, .read = read_stop_ids, .type = "a list of ids",
     .help = "the answer ends with any of these; at most 64"},
    {"ignore_eos", KVSI_GENERATES, FLAG, AT(ignore_eos), .value = "false",
     .help = "do not end at EOS"},
    {"logprobs", KVSI_COMPLETIONS, OTHER, .read = read_top, .type = "a whole number",
     .help = "log-probabilities, with this many alternatives of each token, at most 20"},
    {"logprobs", KVSI_CHAT, FLAG, AT(logprobs), .value = "false", .help = "log-probabilities"},
    {"top_logprobs", KVSI_CHAT, WHOLE, AT(top), 0, KVSI_TOP_MAX, .value = "0",
     .help = "alternatives of each token; needs 'logprobs'"},
    {"echo", KVSI_COMPLETIONS, FLAG, AT(echo), .value = "false",
     .help = "the answer begins with the prompt and, with 'logprobs', its log-probabilities"},
    {"stream", KVSI_GENERATES, FLAG, AT(stream), .value = "false",
     .help = "send the answer in parts, as server-sent events"},
    {"stream_options", KVSI_GENERATES, OTHER, .read = read_stream_options,
     .type = "an object with the flag 'include_usage'",
     .help = "a last part with 'usage'; needs 'stream'"},
    {"add_special_tokens", KVSI_GENERATES | KVSI_TOKENIZE, FLAG, AT(add_special),
     .value = "true; chat: false", .help = "BOS, as the tokenizer adds it to a text"},
    {"add_generation_prompt", KVSI_CHAT, FLAG, AT(add_generation_prompt), .value = "true",
     .help = "the template ends with the start of an answer"},
    {"continue_final_message", KVSI_CHAT, FLAG, AT(continues), .value = "false",
     .help = "the answer continues the last message"},
    {"return_token_ids", KVSI_GENERATES, FLAG, AT(return_ids), .value = "false",
     .help = "the answer has the ids of prompt and text"},
    {"cache_salt", KVSI_GENERATES, TEXT, AT(salt),
     .help = "prefixes are shared only among requests with the same text"},
    {"suffix", KVSI_COMPLETIONS, REFUSED, .means_nothing = is_nothing},
    {"tools", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"tool_choice", KVSI_GENERATES, REFUSED, .means_nothing = is_none_or_auto},
    {"functions", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"function_call", KVSI_GENERATES, REFUSED, .means_nothing = is_none_or_auto},
    {"response_format", KVSI_GENERATES, REFUSED, .means_nothing = is_text_format},
    {"modalities", KVSI_CHAT, REFUSED, .means_nothing = is_text_only},
    {"audio", KVSI_CHAT, REFUSED, .means_nothing = is_nothing},
    {"prediction", KVSI_CHAT, REFUSED, .means_nothing = is_nothing},
    {"web_search_options", KVSI_CHAT, REFUSED, .means_nothing = is_nothing},
    /* Names of other servers: with them the answer would be another one. */
    {"grammar", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"json_schema", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"guided_json", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"guided_regex", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"guided_choice", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"guided_grammar", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"structured_outputs", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"allowed_token_ids", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"bad_words", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"prompt_logprobs", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"use_beam_search", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
    {"length_penalty", KVSI_GENERATES, REFUSED, .means_nothing = is_one},
    {"repeat_penalty", KVSI_GENERATES, REFUSED, .means_nothing = is_one},
    {"typical_p", KVSI_GENERATES, REFUSED, .means_nothing = is_one},
    {"mirostat", KVSI_GENERATES, REFUSED, .means_nothing = is_zero},
    {"dry_multiplier", KVSI_GENERATES, REFUSED, .means_nothing = is_zero},
    {"xtc_probability", KVSI_GENERATES, REFUSED, .means_nothing = is_zero},
    {"n_predict", KVSI_GENERATES, REFUSED, .means_nothing = is_nothing},
};
/* clang-format on */

enum { FIELDS = sizeof fields / sizeof *fields };

const char *kvsi_request_field(size_t index, unsigned *endpoints)
{
    if (index >= FIELDS)
        return NULL;
    *endpoints = fields[index].endpoints;
    return fields[index].name;
}

/* ---- reading the fields ---------------------------------------------------------------------- */

static double high_of(const field *f, const kvsi_request_limits *limits)
{
    return f->limit ? (double)f->limit(limits) : f->high;
}

static kvs_status read_number(reading *in, const field *f, const json_t *value)
{
    const double high = high_of(f, in->limits), number = json_number_value(value);
    void *const to = (char *)in->r + f->offset;

    if (f->kind == WHOLE ? !json_is_integer(value) : !json_is_number(value))
        return kvsi_refuse(
            in->refusal, 400, "invalid_type", f->name, "field '%s': expected %s, found %s", f->name,
            f->kind == WHOLE ? "a whole number" : "a number", kvsi_json_found(value));
    if (!(number >= f->low && number <= high))
        return kvsi_refuse(in->refusal, 400, "invalid_value", f->name,
                           "field '%s': expected %.10g to %.10g, found %.10g", f->name, f->low,
                           high, number);
    if (f->kind == REAL)
        *(double *)to = number;
    else
        *(size_t *)to = number < 0 ? 0 : (size_t)json_integer_value(value);
    return KVS_OK;
}

static kvs_status read_field(reading *in, const field *f, const json_t *value)
{
    void *const to = (char *)in->r + f->offset;

    switch (f->kind) {
    case FLAG:
        if (!json_is_boolean(value))
            break;
        *(int *)to = json_is_true(value);
        return KVS_OK;
    case TEXT:
        if (!json_is_string(value))
            break;
        *(const char **)to = json_string_value(value);
        return KVS_OK;
    case WHOLE:
    case REAL:
        return read_number(in, f, value);
    case OTHER:
        return f->read(in, f, value);
    case REFUSED:
        return f->means_nothing(value) ? KVS_OK
                                       : kvsi_refuse(in->refusal, 400, "unsupported", f->name,
                                                     "field '%s' is not supported", f->name);
    }
    return kvsi_refuse(in->refusal, 400, "invalid_type", f->name,
                       "field '%s': expected %s, found %s", f->name,
                       f->kind == FLAG ? "true or false" : "text", kvsi_json_found(value));
}

/* Names that the table does not have for this endpoint. */
static void note_ignored(kvsi_request *r)
{
    enum { LONGEST = 512 };
    const char *key;
    json_t *value;

    json_object_foreach(r->body, key, value) {
        size_t f = 0;

        (void)value;
        while (f < FIELDS &&
               (!(fields[f].endpoints & r->endpoint) || strcmp(fields[f].name, key) != 0))
            f++;
        if (f < FIELDS || r->ignored.length + strlen(key) > LONGEST)
            continue;
        kvsi_text_add(&r->ignored, r->ignored.length > 0 ? "," : "");
        kvsi_text_add(&r->ignored, key);
    }
}

/* ---- combinations ---------------------------------------------------------------------------- */

static kvs_status check_together(const reading *in)
{
    const kvsi_request *r = in->r;
    const char *missing = r->endpoint & KVSI_CHAT         ? (r->messages ? NULL : "messages")
                          : r->prompts                    ? NULL
                          : r->endpoint & KVSI_DETOKENIZE ? "tokens"
                                                          : "prompt";

    if (missing)
        return kvsi_refuse(in->refusal, 400, "missing", missing, "field '%s' is missing", missing);
    if (r->best_of > 0 && r->best_of != r->n)
        return kvsi_refuse(in->refusal, 400, "unsupported", "best_of",
                           "field 'best_of': only the value of 'n' is supported, which is %zu",
                           r->n);
    if (r->max_tokens == 0 && !r->echo)
        return kvsi_refuse(in->refusal, 400, "invalid_value", "max_tokens",
                           "field 'max_tokens': 0 needs 'echo'");
    if (r->max_tokens != SIZE_MAX && r->min_tokens > r->max_tokens)
        return kvsi_refuse(in->refusal, 400, "invalid_value", "min_tokens",
                           "field 'min_tokens' is %zu, 'max_tokens' only %zu", r->min_tokens,
                           r->max_tokens);
    if (r->include_usage != 0 && !r->stream)
        return kvsi_refuse(in->refusal, 400, "invalid_value", "stream_options",
                           "field 'stream_options' needs 'stream'");
    if (r->top > 0 && !r->logprobs)
        return kvsi_refuse(in->refusal, 400, "invalid_value", "top_logprobs",
                           "field 'top_logprobs' needs 'logprobs'");
    if (r->continues && r->add_generation_prompt > 0)
        return kvsi_refuse(in->refusal, 400, "invalid_value", "continue_final_message",
                           "fields 'continue_final_message' and 'add_generation_prompt' exclude "
                           "each other");
    return KVS_OK;
}

/* ---- the body -------------------------------------------------------------------------------- */

kvs_status kvsi_request_check_shape(const char *text, size_t size, kvsi_refusal *refusal)
{
    const size_t most = KVSI_PROMPT_TOKENS + 4096;
    size_t depth = 0, values = 0;
    int in_string = 0;

    for (size_t i = 0; i < size; i++) {
        const char c = text[i];

        if (in_string) {
            i += c == '\\';
            in_string = c != '"';
            continue;
        }
        in_string = c == '"';
        depth += c == '[' || c == '{';
        depth -= (c == ']' || c == '}') && depth > 0;
        values += c == ',' || c == '[' || c == '{';
        if (depth > KVSI_NESTING_MAX)
            return kvsi_refuse(refusal, 400, "invalid_json", NULL,
                               "the JSON is nested more than %d levels deep", KVSI_NESTING_MAX);
        if (values > most)
            return kvsi_refuse(refusal, 400, "invalid_json", NULL,
                               "the JSON has more than %zu values", most);
    }
    return KVS_OK;
}

static kvs_status parse_body(kvsi_request *r, const char *text, size_t size, kvsi_refusal *refusal)
{
    kvs_err err = {0};

    TRY(kvsi_request_check_shape(text, size, refusal));
    if (kvsi_json_parse(&r->body, text, size, "request", &err) == KVS_OK)
        return KVS_OK;
    return err.status == KVS_E_NOMEM
               ? kvsi_refuse_failed(refusal, &err)
               : kvsi_refuse(refusal, 400, "invalid_json", NULL, "%s", err.message);
}

kvs_status kvsi_request_parse(kvsi_request *r, unsigned endpoint, const char *text, size_t size,
                              const kvsi_request_limits *limits, kvsi_refusal *refusal)
{
    reading in = {r, limits, refusal};

    *refusal = (kvsi_refusal){0};
    *r = (kvsi_request){
        .endpoint = endpoint,
        .max_tokens = SIZE_MAX,
        .n = 1,
        .temperature = 1,
        .top_p = 1,
        .repetition_penalty = 1,
        .add_special = endpoint != KVSI_CHAT,
        .add_generation_prompt = -1, /* not given */
    };
    TRY(parse_body(r, text, size, refusal));
    for (size_t f = 0; f < FIELDS; f++) {
        const json_t *value = json_object_get(r->body, fields[f].name);

        if (value && !json_is_null(value) && (fields[f].endpoints & endpoint))
            TRY(read_field(&in, &fields[f], value));
    }
    note_ignored(r);
    TRY(check_together(&in));
    if (r->prompts && r->prompts->ids) { /* they were copied, and take more memory as JSON */
        json_object_del(r->body, "prompt");
        json_object_del(r->body, "tokens");
    }
    r->include_usage = r->include_usage > 0;
    if (r->add_generation_prompt < 0)
        r->add_generation_prompt = !r->continues;
    if (r->temperature < 1e-5)
        r->temperature = 0;
    return KVS_OK;
}

void kvsi_request_release(kvsi_request *r)
{
    for (size_t i = 0; i < r->prompt_count; i++)
        kvsi_free(r->prompts[i].ids);
    kvsi_free(r->prompts);
    kvsi_free(r->biases);
    json_decref(r->messages);
    json_decref(r->body);
    kvsi_text_release(&r->ignored);
    *r = (kvsi_request){0};
}

/* ---- description ----------------------------------------------------------------------------- */

static const char *type_name(const field *f)
{
    static const char *const names[] = {[FLAG] = "true or false",
                                        [WHOLE] = "a whole number",
                                        [REAL] = "a number",
                                        [TEXT] = "text",
                                        [REFUSED] = "not supported"};

    return f->kind == OTHER ? f->type : names[f->kind];
}

static void add_endpoints(kvsi_text *out, unsigned endpoints)
{
    static const struct {
        unsigned bit;
        const char *path;
    } paths[] = {{KVSI_COMPLETIONS, "/v1/completions"},
                 {KVSI_CHAT, "/v1/chat/completions"},
                 {KVSI_TOKENIZE, "/tokenize"},
                 {KVSI_DETOKENIZE, "/detokenize"}};
    const char *comma = "";

    kvsi_text_add(out, "[");
    for (size_t i = 0; i < sizeof paths / sizeof *paths; i++)
        if (endpoints & paths[i].bit) {
            kvsi_text_format(out, "%s\"%s\"", comma, paths[i].path);
            comma = ",";
        }
    kvsi_text_add(out, "]");
}

void kvsi_request_describe(kvsi_text *out, const kvsi_request_limits *limits)
{
    kvsi_text_add(out, "[");
    for (size_t i = 0; i < FIELDS; i++) {
        const field *f = &fields[i];

        kvsi_text_format(out, "%s{\"name\":\"%s\",\"endpoints\":", i > 0 ? "," : "", f->name);
        add_endpoints(out, f->endpoints);
        kvsi_text_add(out, ",\"type\":");
        kvsi_json_add_text(out, type_name(f));
        if (f->kind == WHOLE || f->kind == REAL)
            kvsi_text_format(out, ",\"low\":%.10g,\"high\":%.10g", f->low, high_of(f, limits));
        if (f->value) {
            kvsi_text_add(out, ",\"default\":");
            kvsi_json_add_text(out, f->value);
        }
        if (f->help) {
            kvsi_text_add(out, ",\"help\":");
            kvsi_json_add_text(out, f->help);
        }
        kvsi_text_add(out, "}");
    }
    kvsi_text_add(out, "]");
}
