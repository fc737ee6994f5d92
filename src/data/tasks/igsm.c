/* The task igsm: a problem in words and its step-by-step solution.
 *
 *     input    problem, question, end of line, solution, end
 *     target   the next token, everywhere or only in the solution
 *
 * A token is a word or, with a tokenizer, a part of one: each word with its leading space is
 * encoded separately.  The token of the asked value is scored. */
#include "data/tasks/igsm.h"

#include "base/memory.h"
#include "config/config.h"
#include "data/tasks/tasks.h"

#include <stdio.h>
#include <string.h>

enum {
    OPERATIONS_MAX = 48, /* the values of a solution need distinct letters */
    PAPER_MAX = 26,
    SAMPLES = 64, /* problems drawn to measure lengths */
};

typedef struct igsm_task {
    kvs_data base;
    kvsi_igsm_config config;
    kvsi_igsm_words words;
    /* With a tokenizer, word w is ids[starts[w]] .. ids[starts[w + 1] - 1]. */
    int32_t *ids;
    size_t *starts;
    int32_t end;
} igsm_task;

/* ---- drawing --------------------------------------------------------------------------------- */

static void draw_problem(kvsi_igsm_problem *out, const igsm_task *task, kvsi_random *random)
{
    if (task->config.mode == KVSI_IGSM_PAPER)
        kvsi_igsm_draw_paper(out, &task->config, random);
    else
        kvsi_igsm_draw_official(out, &task->config, random->purpose == KVSI_RANDOM_EVAL, random);
}

static size_t ids_of(const igsm_task *task, size_t word)
{
    return task->ids ? task->starts[word + 1] - task->starts[word] : 1;
}

static int32_t id_of(const igsm_task *task, size_t word, size_t part)
{
    return task->ids ? task->ids[task->starts[word] + part] : (int32_t)word;
}

static size_t length_of(const igsm_task *task, const kvsi_igsm_text *text)
{
    size_t length = 0;

    for (size_t i = 0; i < text->count; i++)
        length += ids_of(task, text->words[i]);
    return length;
}

/* A problem that fits the maximum length, and its text. */
static void draw_text(kvsi_igsm_problem *problem, kvsi_igsm_text *text, const igsm_task *task,
                      kvsi_random *random)
{
    do {
        draw_problem(problem, task, random);
        kvsi_igsm_write(text, &task->words, problem);
    } while (text->overflow || length_of(task, text) > task->config.max_length);
}

static kvs_status draw(size_t *length, const kvs_data *base, kvsi_random *random, int32_t *ids,
                       int32_t *targets, uint8_t *scored, kvs_err *err)
{
    const igsm_task *task = (const igsm_task *)base;
    kvsi_igsm_problem problem;
    kvsi_igsm_text text;
    size_t row = 0; /* index of the next input; its id is the target of the row before */

    (void)err;
    draw_text(&problem, &text, task, random);
    for (size_t i = 0; i < text.count; i++)
        for (size_t part = 0; part < ids_of(task, text.words[i]); part++, row++) {
            const int32_t id = id_of(task, text.words[i], part);

            if (row < base->max_tokens)
                ids[row] = id;
            if (row == 0)
                continue;
            targets[row - 1] = task->config.solution_only && i < text.problem_count ? -1 : id;
            scored[row - 1] = i == text.answer;
        }
    *length = row - 1;
    return KVS_OK;
}

/* ---- problems and answers -------------------------------------------------------------------- */

static const igsm_task *as_igsm(const kvs_data *task);

static void draw_evaluated(kvsi_igsm_problem *problem, kvsi_igsm_text *text, const igsm_task *task,
                           uint64_t seed, uint64_t index)
{
    kvsi_random random;

    kvsi_random_init(&random, seed, KVSI_RANDOM_EVAL, index);
    draw_text(problem, text, task, &random);
}

size_t kvs_igsm_problem(int32_t *ids, const kvs_data *base, uint64_t seed, uint64_t index)
{
    const igsm_task *task = as_igsm(base);
    kvsi_igsm_problem problem;
    kvsi_igsm_text text;
    size_t count = 0;

    if (!task || !ids)
        return 0;
    draw_evaluated(&problem, &text, task, seed, index);
    for (size_t i = 0; i < text.problem_count; i++)
        for (size_t part = 0; part < ids_of(task, text.words[i]); part++)
            ids[count++] = id_of(task, text.words[i], part);
    return count;
}

int32_t kvs_igsm_end(const kvs_data *base)
{
    const igsm_task *task = as_igsm(base);

    return task ? task->end : -1;
}

/* The longest word whose ids come next; words->count = none. */
static size_t read_word(const igsm_task *task, const int32_t *ids, size_t count)
{
    size_t best = task->words.count, longest = 0;

    if (!task->ids)
        return count > 0 && ids[0] >= 0 && (size_t)ids[0] < best ? (size_t)ids[0] : best;
    for (size_t word = 0; word < task->words.count; word++) {
        const size_t size = ids_of(task, word);

        if (size > longest && size <= count &&
            memcmp(ids, task->ids + task->starts[word], size * sizeof *ids) == 0) {
            best = word;
            longest = size;
        }
    }
    return best;
}

kvs_status kvs_igsm_grade_answer(kvs_igsm_grade *out, const kvs_data *base, uint64_t seed,
                                 uint64_t index, const int32_t *ids, size_t count, kvs_err *err)
{
    const igsm_task *task = as_igsm(base);
    const uint16_t unknown = UINT16_MAX;
    kvsi_igsm_problem problem;
    kvsi_igsm_text text;
    uint16_t written[KVSI_IGSM_WORDS_MAX];
    size_t words = 0;
    int ended = 0;

    NEED(out);
    NEED_AS(base, data);
    NEED_ARRAY(ids, count);
    if (!task)
        return kvsi_fail(err, KVS_E_INVALID, "answers of task '%s' cannot be graded",
                         base->ops->name);
    draw_evaluated(&problem, &text, task, seed, index);
    for (size_t at = 0; at < count && words < KVSI_IGSM_WORDS_MAX && !ended;) {
        const size_t word = read_word(task, ids + at, count - at);
        const int known = word < task->words.count;

        ended = known && word == KVSI_IGSM_END;
        if (!ended)
            written[words++] = known ? (uint16_t)word : unknown;
        at += known ? ids_of(task, word) : 1;
    }
    kvsi_igsm_grade(out, &task->words, &problem, written, words, ended);
    return KVS_OK;
}

/* ---- creation -------------------------------------------------------------------------------- */

static void word(const kvs_data *base, int32_t id, char *out, size_t size)
{
    const igsm_task *task = (const igsm_task *)base;
    char text[32];

    if (task->ids || id < 0 || (size_t)id >= task->words.count) {
        snprintf(out, size, "%d", (int)id);
        return;
    }
    kvsi_igsm_word_text(&task->words, (size_t)id, text, sizeof text);
    snprintf(out, size, "%s", id == KVSI_IGSM_LINE ? "|" : text + (text[0] == ' '));
}

static json_t *describe(const kvs_data *base)
{
    const igsm_task *task = (const igsm_task *)base;
    json_t *object = kvsi_task_describe(base, &kvsi_igsm_settings, &task->config);

    json_object_set_new(object, "tokens", json_string(task->ids ? "tokenizer" : "words"));
    return object;
}

static void release(kvs_data *base)
{
    igsm_task *task = (igsm_task *)base;

    kvsi_free(task->ids);
    kvsi_free(task->starts);
    kvsi_free(task);
}

static const kvsi_data_ops igsm_ops = {
    .name = "igsm", .draw = draw, .word = word, .describe = describe, .release = release};

static const igsm_task *as_igsm(const kvs_data *task)
{
    return task && task->ops == &igsm_ops ? (const igsm_task *)task : NULL;
}

static kvs_status check_range(const char *name, size_t value, size_t low, size_t high, kvs_err *err)
{
    if (value < low || value > high)
        return kvsi_fail(err, KVS_E_INVALID, "igsm %s is '%zu', expected %zu to %zu", name, value,
                         low, high);
    return KVS_OK;
}

static kvs_status check(const kvsi_igsm_config *c, kvs_err *err)
{
    const int paper = c->mode == KVSI_IGSM_PAPER;

    TRY(kvsi_settings_check(&kvsi_igsm_settings, c, err));
    if (!paper && c->wording == KVSI_IGSM_COMPACT)
        return kvsi_fail(err, KVS_E_INVALID, "igsm wording 'compact' is for mode 'paper' only");
    TRY(check_range("max op", c->max_op, paper ? 4 : 1, paper ? PAPER_MAX : OPERATIONS_MAX, err));
    TRY(check_range("min op", c->min_op, 1, c->max_op, err));
    return paper ? check_range("min op with these items", c->min_op, 1, 4 * c->items, err) : KVS_OK;
}

/* The ids of one word; the end is the tokenizer's EOS. */
static kvs_status encode_word(igsm_task *task, const kvs_tokenizer *tokenizer, size_t w,
                              size_t *capacity, kvs_err *err)
{
    char text[32];
    int32_t *ids = NULL;
    size_t count = 0;
    kvs_status st = KVS_OK;

    kvsi_igsm_word_text(&task->words, w, text, sizeof text);
    if (w == KVSI_IGSM_END) {
        task->ids[0] = task->end;
        task->starts[1] = 1;
        return KVS_OK;
    }
    TRY_OUT(kvs_tokenizer_encode(&ids, &count, tokenizer, text, strlen(text), KVS_ENCODE_NO_SPECIAL,
                                 err));
    if (count == 0 || count > *capacity) {
        st = kvsi_fail(err, KVS_E_UNSUPPORTED, "the tokenizer gives %zu tokens for '%s'", count,
                       text);
        goto out;
    }
    memcpy(task->ids + task->starts[w], ids, count * sizeof *ids);
    task->starts[w + 1] = task->starts[w] + count;
    *capacity -= count;
out:
    kvs_ids_free(ids);
    return st;
}

static kvs_status encode_words(igsm_task *task, const kvs_tokenizer *tokenizer, kvs_err *err)
{
    size_t capacity = 32 * task->words.count;

    task->end = kvs_tokenizer_eos(tokenizer);
    if (task->end < 0)
        return kvsi_fail(err, KVS_E_UNSUPPORTED, "task igsm needs a tokenizer with an EOS token");
    task->ids = kvsi_alloc(capacity, sizeof *task->ids);
    task->starts = kvsi_alloc(task->words.count + 1, sizeof *task->starts);
    if (!task->ids || !task->starts)
        return kvsi_no_memory(err, "%zu words", task->words.count);
    for (size_t w = 0; w < task->words.count; w++)
        TRY(encode_word(task, tokenizer, w, &capacity, err));
    task->base.vocab = kvs_tokenizer_vocab(tokenizer);
    return KVS_OK;
}

/* Fails if hardly any problem is short enough; otherwise measures their lengths. */
static kvs_status measure(igsm_task *task, kvs_err *err)
{
    size_t sum = 0, fitting = 0;

    for (size_t i = 0; i < SAMPLES; i++) {
        kvsi_igsm_problem problem;
        kvsi_igsm_text text;
        kvsi_random random;

        kvsi_random_init(&random, 1, KVSI_RANDOM_DATA, i);
        draw_problem(&problem, task, &random);
        kvsi_igsm_write(&text, &task->words, &problem);
        if (text.overflow || length_of(task, &text) > task->config.max_length)
            continue;
        fitting++;
        sum += length_of(task, &text) - 1;
    }
    if (fitting == 0)
        return kvsi_fail(err, KVS_E_INVALID,
                         "igsm max length is '%zu', but each of %d problems is longer",
                         task->config.max_length, SAMPLES);
    task->base.mean_tokens = (double)sum / (double)fitting;
    return KVS_OK;
}

kvs_status kvsi_igsm_create(kvs_data **out, const kvsi_igsm_config *config, kvs_err *err)
{
    igsm_task *task = NULL;
    kvs_status st;

    *out = NULL;
    TRY_OUT(check(config, err));
    task = kvsi_alloc(1, sizeof *task);
    if (!task) {
        st = kvsi_no_memory(err, "the task igsm");
        goto out;
    }
    task->config = *config;
    task->config.tokenizer = NULL; /* not kept */
    task->end = KVSI_IGSM_END;
    kvsi_igsm_words_init(&task->words, config);
    task->base = (kvs_data){
        .ops = &igsm_ops, .vocab = task->words.count, .max_tokens = config->max_length - 1};
    if (config->tokenizer)
        TRY_OUT(encode_words(task, config->tokenizer, err));
    TRY_OUT(measure(task, err));
    *out = &task->base;
    task = NULL;
out:
    if (task)
        release(&task->base);
    return st;
}
