/* Samples of one task: a JSON object per line and document. */
#include "base/array.h"
#include "base/checksum.h"
#include "base/files.h"
#include "base/memory.h"
#include "eval/stored.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    LINE_LIMIT = 16 << 20, /* bytes */
    CHOICES_MAX = 1000,
    PLACE = 600, /* bytes of "FILE, line N" */
};

/* ---- requests -------------------------------------------------------------------------------- */

/* Request number i of a sample: its context and, unless text is generated, its continuation. */
typedef struct request {
    const char *context, *continuation;
} request;

/* "arguments" is {"gen_args_0": {"arg_0": context, "arg_1": continuation}, ...}, or, in older
 * files, [[context, continuation], ...]. */
static int get_request(request *out, const json_t *arguments, size_t i)
{
    const json_t *pair, *first, *second;

    if (json_is_array(arguments)) {
        pair = json_array_get(arguments, i);
        first = json_array_get(pair, 0);
        second = json_array_get(pair, 1);
    } else {
        char name[32];

        snprintf(name, sizeof name, "gen_args_%zu", i);
        pair = json_object_get(arguments, name);
        first = json_object_get(pair, "arg_0");
        second = json_object_get(pair, "arg_1");
    }
    *out = (request){json_string_value(first), json_string_value(second)};
    return out->context != NULL;
}

static size_t request_count(const json_t *arguments)
{
    return json_is_array(arguments) ? json_array_size(arguments) : json_object_size(arguments);
}

static size_t characters(const char *text)
{
    size_t count = 0;

    for (; *text; text++)
        count += ((unsigned char)*text & 0xc0) != 0x80;
    return count;
}

/* Without the space that separates it from the context. */
static const char *without_space(const char *continuation)
{
    return continuation + (*continuation == ' ');
}

/* Contexts and continuations with the zero bytes between them. */
static kvs_status checksum_requests(kvsi_stored_document *d, const json_t *arguments, kvs_err *err)
{
    kvsi_checksum_stream *sum;
    request r;

    TRY(kvsi_checksum_create(&sum, err));
    for (size_t i = 0; get_request(&r, arguments, i); i++) {
        kvsi_checksum_add(sum, r.context, strlen(r.context) + 1);
        if (r.continuation)
            kvsi_checksum_add(sum, r.continuation, strlen(r.continuation) + 1);
    }
    d->requests = kvsi_checksum_value(sum);
    kvsi_checksum_free(sum);
    return KVS_OK;
}

/* ---- choices --------------------------------------------------------------------------------- */

/* The text of choice i that a reader sees.  Where choices are letters, it is in the document:
 * "choices" of MMLU, "A" to "D" of CMMLU. */
static const char *choice_text(const json_t *doc, const json_t *choices, size_t i)
{
    const char letter[] = {(char)('A' + i), '\0'};
    const char *text = json_string_value(json_array_get(choices, i));

    if (!text && i < 26)
        text = json_string_value(json_object_get(doc, letter));
    return text;
}

/* Characters of a choice: of its continuation; of its context if all continuations are the same, as
 * in WinoGrande; of its text in the document if continuations are single letters. */
static void find_longest(kvsi_stored_document *d, const json_t *doc, const json_t *arguments)
{
    const json_t *choices = json_object_get(doc, "choices");
    int letters = 1, same = 1;
    size_t most = 0;
    request first, r;

    if (!get_request(&first, arguments, 0) || !first.continuation)
        return;
    for (size_t i = 0; i < d->choices && get_request(&r, arguments, i) && r.continuation; i++) {
        letters &= characters(without_space(r.continuation)) == 1 && choice_text(doc, choices, i);
        same &= strcmp(first.continuation, r.continuation) == 0;
    }
    for (size_t i = 0; i < d->choices && get_request(&r, arguments, i) && r.continuation; i++) {
        const char *text = letters ? choice_text(doc, choices, i)
                           : same  ? r.context
                                   : without_space(r.continuation);
        const size_t length = text ? characters(text) : 0;

        if (length > most) {
            most = length;
            d->longest = (int)i;
        }
    }
}

static int is_word_byte(char byte)
{
    return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') ||
           (byte >= 'a' && byte <= 'z') || (unsigned char)byte >= 0x80;
}

/* Whether the word stands in the context, not as a part of a longer word. */
static int occurs(const char *word, const char *context)
{
    const size_t size = strlen(word);

    if (size == 0)
        return 0;
    for (const char *at = context; (at = strstr(at, word)) != NULL; at++)
        if ((at == context || !is_word_byte(at[-1]) || !is_word_byte(word[0])) &&
            (!is_word_byte(at[size]) || !is_word_byte(word[size - 1])))
            return 1;
    return 0;
}

int kvsi_stored_choice(const kvsi_stored_document *document)
{
    int best = 0;

    for (size_t i = 1; i < document->choices; i++)
        if (document->likelihoods[i] > document->likelihoods[best])
            best = (int)i;
    return document->choices > 0 ? best : KVSI_NO_CHOICE;
}

/* The target is the index of the right choice.  In WinoGrande it is a text, but of two choices the
 * right one is known from the accuracy. */
static void find_gold(kvsi_stored_document *d, const char *target, double accuracy)
{
    char *end = NULL;
    const long index = strtol(target, &end, 10);
    const int choice = kvsi_stored_choice(d);

    if (*target && !*end && index >= 0 && index < (long)d->choices)
        d->gold = (int)index;
    else if (accuracy == 1)
        d->gold = choice;
    else if (accuracy == 0 && d->choices == 2)
        d->gold = 1 - choice;
}

/* ---- one sample ------------------------------------------------------------------------------ */

static kvs_status wrong(const char *place, const char *key, const char *expected, kvs_err *err)
{
    return kvsi_fail(err, KVS_E_FORMAT, "'%s': key '%s': expected %s", place, key, expected);
}

/* A number, true or false, or one of these as a text: "-8.5", "False". */
static int get_value(double *out, const json_t *value)
{
    const char *text = json_string_value(value);
    char *end;

    if (json_is_number(value)) {
        *out = json_number_value(value);
        return 1;
    }
    if (json_is_boolean(value)) {
        *out = json_is_true(value);
        return 1;
    }
    if (!text)
        return 0;
    if (strcmp(text, "True") == 0 || strcmp(text, "False") == 0) {
        *out = text[0] == 'T';
        return 1;
    }
    errno = 0;
    *out = strtod(text, &end);
    return *text && !*end && end != text;
}

/* Element 0 of [likelihood, greedy], which older files nest once more. */
static const json_t *likelihood_of(const json_t *response)
{
    const json_t *first = json_array_get(response, 0);

    return json_is_array(first) ? json_array_get(first, 0) : first;
}

/* A text that was generated is a string where a likelihood is a pair. */
static kvs_status read_responses(kvsi_stored_document *d, kvsi_stored_kind *kind,
                                 const json_t *sample, const char *place, kvs_err *err)
{
    const json_t *responses = json_object_get(sample, "filtered_resps");
    const json_t *arguments = json_object_get(sample, "arguments");
    const size_t requests = request_count(arguments);
    const json_t *first;
    request r;

    if (!json_is_array(responses) || json_array_size(responses) == 0)
        return wrong(place, "filtered_resps", "an array of responses", err);
    if (requests == 0 || requests > CHOICES_MAX || !get_request(&r, arguments, 0))
        return wrong(place, "arguments", "1 to 1000 requests, each with a context", err);
    first = json_array_get(responses, 0);
    if (!json_is_array(first) || !r.continuation) {
        *kind = KVSI_STORED_TEXT;
        d->metrics = kvsi_alloc(KVSI_STORED_METRICS, sizeof *d->metrics);
        return d->metrics ? KVS_OK : kvsi_no_memory(err, "'%s'", place);
    }
    d->choices = json_array_size(responses);
    if (d->choices != requests)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': expected as many responses as requests, %zu, "
                         "found %zu",
                         place, requests, d->choices);
    *kind = d->choices > 1 ? KVSI_STORED_CHOICES : KVSI_STORED_LAST_WORD;
    d->metrics = kvsi_alloc(KVSI_STORED_METRICS + d->choices, sizeof *d->metrics);
    if (!d->metrics)
        return kvsi_no_memory(err, "'%s'", place);
    d->likelihoods = d->metrics + KVSI_STORED_METRICS;
    for (size_t i = 0; i < d->choices; i++) {
        const json_t *value = likelihood_of(json_array_get(responses, i));

        if (!get_request(&r, arguments, i) || !r.continuation)
            return wrong(place, "arguments", "a context and a continuation for each request", err);
        if (!get_value(d->likelihoods + i, value) || !isfinite(d->likelihoods[i]))
            return wrong(place, "filtered_resps", "a finite log-likelihood for each request", err);
    }
    return KVS_OK;
}

static const char *text_of(const json_t *sample, const char *key)
{
    const char *text = json_string_value(json_object_get(sample, key));

    return text ? text : "";
}

/* The target as text: strings stay, numbers are printed. */
static void print_target(char *out, size_t size, const json_t *sample)
{
    const json_t *target = json_object_get(sample, "target");

    out[0] = '\0';
    if (json_is_string(target))
        snprintf(out, size, "%s", json_string_value(target));
    else if (json_is_integer(target))
        snprintf(out, size, "%lld", (long long)json_integer_value(target));
}

static kvs_status set_key(kvsi_stored_document *d, const json_t *sample, const char *place,
                          kvs_err *err)
{
    const char *hash = text_of(sample, "doc_hash");
    const char *prompt = text_of(sample, "prompt_hash"), *target = text_of(sample, "target_hash");
    const json_t *id = json_object_get(sample, "doc_id");
    kvsi_text key = {0};
    kvs_status st = KVS_OK;

    if (!json_is_integer(id) || json_integer_value(id) < 0)
        return wrong(place, "doc_id", "a whole number of at least 0", err);
    d->id = (size_t)json_integer_value(id);
    if (*hash)
        kvsi_text_add(&key, hash);
    else if (*prompt && *target)
        kvsi_text_format(&key, "%zu %s %s", d->id, prompt, target);
    else
        return wrong(place, "doc_hash",
                     "the hash of the document, or 'prompt_hash' and "
                     "'target_hash'",
                     err);
    TRY_OUT(kvsi_text_check(&key, err));
    d->key = kvsi_strdup(key.data);
    if (!d->key) {
        st = kvsi_no_memory(err, "'%s'", place);
        goto out;
    }
    key.length = 0;
    kvsi_text_format(&key, "%s %s", prompt, target);
    TRY_OUT(kvsi_text_check(&key, err));
    if (*prompt && *target)
        d->prompt = kvsi_checksum(key.data, key.length);
out:
    kvsi_text_release(&key);
    return st;
}

static kvs_status read_document(kvsi_stored_document *d, kvsi_stored_task *task,
                                const json_t *sample, const char *place, kvs_err *err)
{
    const json_t *arguments = json_object_get(sample, "arguments");
    const json_t *doc = json_object_get(sample, "doc");
    kvsi_stored_kind kind = KVSI_STORED_TEXT;
    char target[32];
    request r;
    double accuracy = NAN;

    d->gold = KVSI_NO_CHOICE;
    TRY(set_key(d, sample, place, err));
    TRY(read_responses(d, &kind, sample, place, err));
    if (task->count == 0)
        task->kind = kind;
    else if (task->kind != kind)
        return kvsi_fail(err, KVS_E_FORMAT,
                         "'%s': the requests are of another kind than those of the first document",
                         place);
    for (size_t m = 0; m < KVSI_STORED_METRICS; m++) {
        d->metrics[m] = NAN;
        if (m < task->metric_count &&
            !get_value(d->metrics + m, json_object_get(sample, task->metrics[m])))
            d->metrics[m] = NAN;
    }
    if (kvsi_stored_metric(task, "acc") < task->metric_count)
        accuracy = d->metrics[kvsi_stored_metric(task, "acc")];
    TRY(checksum_requests(d, arguments, err));
    get_request(&r, arguments, 0);
    d->context = characters(r.context);
    print_target(target, sizeof target, sample);
    if (kind == KVSI_STORED_CHOICES) {
        find_longest(d, doc, arguments);
        find_gold(d, target, accuracy);
    } else if (kind == KVSI_STORED_LAST_WORD) {
        d->gold = 0;
        d->copied = occurs(without_space(r.continuation), r.context);
    }
    if (d->gold != KVSI_NO_CHOICE && get_request(&r, arguments, (size_t)d->gold))
        d->gold_bytes = strlen(without_space(r.continuation));
    return KVS_OK;
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Metrics are those of the first document that are one number each. */
static kvs_status set_metrics(kvsi_stored_task *task, const json_t *sample, const char *place,
                              kvs_err *err)
{
    const json_t *names = json_object_get(sample, "metrics"), *name;
    const char *filter = text_of(sample, "filter");
    size_t i;

    task->filter = kvsi_strdup(*filter ? filter : "none");
    if (!task->filter)
        return kvsi_no_memory(err, "'%s'", place);
    if (!json_is_array(names) || json_array_size(names) == 0)
        return wrong(place, "metrics", "an array of names", err);
    json_array_foreach(names, i, name) {
        const char *text = json_string_value(name);
        double value;

        if (!text)
            return wrong(place, "metrics", "an array of names", err);
        if (task->metric_count == KVSI_STORED_METRICS ||
            !get_value(&value, json_object_get(sample, text)))
            continue;
        task->metrics[task->metric_count] = kvsi_strdup(text);
        if (!task->metrics[task->metric_count])
            return kvsi_no_memory(err, "'%s'", place);
        task->metric_count++;
    }
    return KVS_OK;
}

static void release_document(kvsi_stored_document *d)
{
    kvsi_free(d->key);
    kvsi_free(d->metrics);
    *d = (kvsi_stored_document){0};
}

static kvs_status add_line(kvsi_stored_task *task, const kvsi_text *line, const char *place,
                           kvs_err *err)
{
    json_t *sample = NULL;
    kvs_status st;

    TRY_OUT(kvsi_json_parse(&sample, line->data, line->length, place, err));
    if (!task->filter)
        TRY_OUT(set_metrics(task, sample, place, err));
    if (*text_of(sample, "filter") && strcmp(text_of(sample, "filter"), task->filter) != 0) {
        task->filtered++;
        goto out;
    }
    TRY_OUT(kvsi_array_reserve(&task->documents, &task->capacity, task->count + 1,
                               sizeof *task->documents, err));
    st = read_document(task->documents + task->count, task, sample, place, err);
    if (st == KVS_OK)
        task->count++;
    else
        release_document(task->documents + task->count);
out:
    json_decref(sample);
    return st;
}

static int by_key(const void *a, const void *b)
{
    const kvsi_stored_document *x = a, *y = b;
    const int order = strcmp(x->key, y->key);

    return order ? order : (x->id > y->id) - (x->id < y->id);
}

static kvs_status refuse_twice(const kvsi_stored_task *task, kvs_err *err)
{
    for (size_t i = 1; i < task->count; i++)
        if (by_key(task->documents + i - 1, task->documents + i) == 0)
            return kvsi_fail(err, KVS_E_FORMAT, "'%s': document %zu is there twice", task->file,
                             task->documents[i].id);
    return KVS_OK;
}

kvs_status kvsi_stored_read_samples(kvsi_stored_task *task, kvs_err *err)
{
    kvsi_text line = {0};
    FILE *file = fopen(task->file, "r");
    char place[PLACE];
    int found = 1;
    kvs_status st = KVS_OK;

    if (!file)
        return kvsi_fail_errno(err, "open", task->file);
    for (size_t number = 1;; number++) {
        snprintf(place, sizeof place, "%.500s, line %zu", task->file, number);
        TRY_OUT(kvsi_read_line(&line, &found, file, place, LINE_LIMIT, err));
        if (!found)
            break;
        if (strspn(line.data, " \t\r\n") < line.length)
            TRY_OUT(add_line(task, &line, place, err));
    }
    if (task->count == 0) {
        st = kvsi_fail(err, KVS_E_FORMAT, "'%s' has no samples", task->file);
        goto out;
    }
    qsort(task->documents, task->count, sizeof *task->documents, by_key);
    TRY_OUT(refuse_twice(task, err));
out:
    kvsi_text_release(&line);
    fclose(file);
    return st;
}

void kvsi_stored_task_release(kvsi_stored_task *task)
{
    for (size_t i = 0; i < task->count; i++)
        release_document(task->documents + i);
    for (size_t m = 0; m < task->metric_count; m++)
        kvsi_free(task->metrics[m]);
    kvsi_free(task->documents);
    kvsi_free(task->name);
    kvsi_free(task->group);
    kvsi_free(task->file);
    kvsi_free(task->filter);
    *task = (kvsi_stored_task){0};
}

size_t kvsi_stored_metric(const kvsi_stored_task *task, const char *name)
{
    size_t m = 0;

    while (m < task->metric_count && strcmp(task->metrics[m], name) != 0)
        m++;
    return m;
}
