/* kvs_generate(): its tokens are those of a session and a sampler, its text is that of the tokens,
 * and it ends for the right reason. */
#include "base/memory.h"
#include "base/text.h"
#include "infer/session.h"
#include "support.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VOCAB = 300, CONTEXT = 90, PROMPT = 7, MOST = CONTEXT + 1 };

typedef struct fixture {
    kvs_runtime *rt;
    kvs_model *model;
    kvs_tokenizer *tokenizer;
    kvs_session *session;
    int32_t prompt[PROMPT];
} fixture;

static void start(fixture *f, const char *level)
{
    static const support_sizes sizes = {.vocab = VOCAB, .dim = 24, .ffn = 40, .context = CONTEXT};
    const kvs_model_config special = {SUPPORT_SHIFT(KVS_SHIFT_K | KVS_SHIFT_V, FREE, 1),
                                      .kv_heads = 2};
    const kvs_model_config config = support_config(&special, &sizes);

    f->rt = support_runtime(level);
    f->model = support_model(f->rt, &config, 12);
    /* This tokenizer has 256 tokens, so that the model has 44 ids without a text. */
    assert_int_equal(kvs_tokenizer_load(&f->tokenizer, "bytes", NULL), KVS_OK);
    assert_int_equal(kvs_session_create(&f->session, f->model, NULL, NULL), KVS_OK);
    support_fill_ids(f->prompt, PROMPT, 9, 256);
}

static void finish(fixture *f)
{
    kvs_session_free(f->session);
    kvs_tokenizer_free(f->tokenizer);
    kvs_model_free(f->model);
    kvs_runtime_free(f->rt);
}

static int set_up(void **state)
{
    fixture *f = test_malloc(sizeof *f);

    start(f, NULL);
    *state = f;
    return 0;
}

static int tear_down(void **state)
{
    finish(*state);
    test_free(*state);
    return 0;
}

/* ---- a callback that records its calls ---- */

typedef struct record {
    size_t count; /* number of tokens */
    size_t calls; /* the last call may have text and no token */
    int32_t ids[MOST];
    double logprobs[MOST];
    kvsi_text text;
    size_t ends;       /* calls with a token that ends the text */
    size_t stop_after; /* number of the call that stops the generation; 0 = none does */
} record;

static int keep(void *user, const kvs_generated *token)
{
    record *r = user;

    assert_non_null(token->text);
    assert_int_equal(token->index, r->count);
    assert_int_equal(r->calls++, r->count); /* no call follows the one without a token */
    kvsi_text_add_bytes(&r->text, token->text, token->text_size);
    if (token->id < 0) {
        assert_int_equal(token->id, -1);
        assert_true(isnan(token->logprob) && token->text_size > 0);
        return 0;
    }
    assert_true(r->count < MOST);
    r->ends += token->ends == 1;
    r->ids[r->count] = token->id;
    r->logprobs[r->count++] = token->logprob;
    return r->stop_after > 0 && r->calls == r->stop_after;
}

static void forget(record *r)
{
    kvsi_text_release(&r->text);
    *r = (record){0};
}

static kvs_sampling sampling_of(double temperature)
{
    kvs_sampling sampling;

    kvs_sampling_init(&sampling, sizeof sampling);
    sampling.temperature = temperature;
    sampling.repeat_penalty = temperature > 0 ? 1.3 : 1;
    return sampling;
}

static kvs_generate_options options_of(record *r, const kvs_sampling *sampling)
{
    kvs_generate_options options;

    kvs_generate_options_init(&options, sizeof options);
    options.sampling = sampling;
    options.logprobs = 1;
    options.token = keep;
    options.user = r;
    return options;
}

static kvs_finish run(fixture *f, const kvs_generate_options *options)
{
    kvs_finish reason = (kvs_finish)99;
    kvs_err err;

    kvs_session_reset(f->session);
    if (kvs_generate(&reason, f->session, f->prompt, PROMPT, options, &err) != KVS_OK)
        fail_msg("%s", err.message);
    return reason;
}

/* Checks that the session has the prompt and all tokens except the last one. */
static void expect_session(const fixture *f, const record *r)
{
    const int32_t *ids = kvs_session_ids(f->session);

    assert_int_equal(kvs_session_length(f->session), PROMPT + r->count - 1);
    assert_memory_equal(ids, f->prompt, sizeof f->prompt);
    assert_memory_equal(ids + PROMPT, r->ids, (r->count - 1) * sizeof *ids);
}

/* Checks that the recorded text is that of `count` ids. */
static void expect_text(const fixture *f, const record *r, const int32_t *ids, size_t count)
{
    char *text;
    size_t size;

    assert_int_equal(kvs_tokenizer_decode(&text, &size, f->tokenizer, ids, count, NULL), KVS_OK);
    assert_int_equal(r->text.length, size);
    assert_memory_equal(r->text.data, text, size);
    kvs_text_free(text);
}

/* ---- tokens ---- */

/* Checks the recorded tokens with a session and a sampler, which chooses among the first `choices`
 * ids. */
static void check_tokens(fixture *f, const record *r, const kvs_sampling *sampling, size_t choices)
{
    kvs_sampler *sampler;
    float logits[VOCAB];
    kvs_session *s;

    assert_int_equal(kvs_session_create(&s, f->model, NULL, NULL), KVS_OK);
    assert_int_equal(kvs_sampler_create(&sampler, choices, sampling, NULL), KVS_OK);
    assert_int_equal(kvs_sampler_accept(sampler, f->prompt, PROMPT, NULL), KVS_OK);
    assert_int_equal(kvs_session_feed(s, f->prompt, PROMPT, logits, NULL), KVS_OK);
    for (size_t i = 0; i < r->count; i++) {
        assert_int_equal(r->ids[i], kvs_sampler_next(sampler, logits));
        assert_true(r->logprobs[i] == kvs_logits_logprob(logits, VOCAB, r->ids[i]));
        if (i + 1 < r->count)
            assert_int_equal(kvs_session_feed(s, &r->ids[i], 1, logits, NULL), KVS_OK);
    }
    kvs_sampler_free(sampler);
    kvs_session_free(s);
}

static void check_level(fixture *f)
{
    for (int k = 0; k < 4; k++) { /* greedy or not, with a tokenizer or not */
        const kvs_sampling sampling = sampling_of(k % 2 ? 1.1 : 0);
        record r = {0};
        kvs_generate_options options = options_of(&r, &sampling);

        options.tokenizer = k < 2 ? f->tokenizer : NULL;
        options.max_tokens = 20;
        assert_int_equal(run(f, &options), KVS_FINISH_LENGTH);
        assert_int_equal(r.count, 20);
        check_tokens(f, &r, &sampling, k < 2 ? 256 : VOCAB);
        expect_session(f, &r);
        if (k < 2)
            expect_text(f, &r, r.ids, r.count);
        else
            assert_int_equal(r.text.length, 0);
        forget(&r);
    }
}

static void tokens_are_those_of_the_sampler(void **state)
{
    (void)state;
    for (size_t l = 0; support_level(l); l++) {
        fixture f;

        start(&f, support_level(l));
        check_level(&f);
        finish(&f);
    }
}

/* Without a limit, generation ends when the session is full; the last token is not fed. */
static void full_sessions_end_the_generation(void **state)
{
    fixture *f = *state;
    record r = {0};
    kvs_generate_options options = options_of(&r, NULL);

    options.tokenizer = f->tokenizer;
    assert_int_equal(run(f, &options), KVS_FINISH_FULL);
    assert_int_equal(r.count, CONTEXT - PROMPT + 1);
    assert_int_equal(kvs_session_length(f->session), CONTEXT);
    expect_text(f, &r, r.ids, r.count);

    forget(&r); /* a full session can still give one token, which is not fed */
    assert_int_equal(kvs_generate(NULL, f->session, NULL, 0, &options, NULL), KVS_OK);
    assert_int_equal(r.count, 1);
    forget(&r);
}

/* Two calls generate the tokens of one call if the prompt of the second is the last token of the
 * first. */
static void generation_continues(void **state)
{
    fixture *f = *state;
    const kvs_sampling sampling = sampling_of(0);
    record r = {0}, first = {0};
    kvs_generate_options options = options_of(&r, &sampling);
    int32_t last;

    options.max_tokens = 16;
    run(f, &options);
    options.user = &first;
    options.max_tokens = 6;
    run(f, &options);
    assert_memory_equal(first.ids, r.ids, 6 * sizeof *r.ids);
    last = first.ids[5];
    options.max_tokens = 10;
    forget(&first);
    assert_int_equal(kvs_generate(NULL, f->session, &last, 1, &options, NULL), KVS_OK);
    assert_memory_equal(first.ids, r.ids + 6, 10 * sizeof *r.ids);
    forget(&first); /* with an empty prompt the first token comes from the session's logits */
    options.max_tokens = 1;
    assert_int_equal(kvs_generate(NULL, f->session, NULL, 0, &options, NULL), KVS_OK);
    assert_int_equal(first.ids[0], r.ids[15]);
    forget(&first);
    forget(&r);
}

/* All options may be left out. */
static void defaults_are_enough(void **state)
{
    fixture *f = *state;
    kvs_sampling sampling;
    record r = {0};
    kvs_generate_options options = options_of(&r, NULL);
    int32_t ids[CONTEXT];

    assert_int_equal(run(f, NULL), KVS_FINISH_FULL);
    memcpy(ids, kvs_session_ids(f->session), sizeof ids);
    run(f, &options);
    assert_memory_equal(ids + PROMPT, r.ids, (CONTEXT - PROMPT) * sizeof *ids);
    kvs_sampling_init(&sampling, sizeof sampling);
    check_tokens(f, &r, &sampling, VOCAB);
    forget(&r);
}

/* ---- reasons for the end of a generation ---- */

static void eos_ends_the_generation(void **state)
{
    fixture *f = *state;
    const kvs_sampling sampling = sampling_of(0.9);
    record r = {0}, cut = {0};
    kvs_generate_options options = options_of(&r, &sampling);
    size_t first = 5;

    options.max_tokens = 20;
    options.tokenizer = f->tokenizer;
    run(f, &options);
    for (size_t i = 0; i < first; i++) /* finds the first occurrence of the token */
        if (r.ids[i] == r.ids[first])
            first = i;
    assert_int_equal(kvs_model_set_eos(f->model, (int32_t[]){257, r.ids[first]}, 2, NULL), KVS_OK);
    options.user = &cut;
    assert_int_equal(run(f, &options), KVS_FINISH_EOS);
    assert_int_equal(cut.count, first + 1); /* the callback gets the EOS token, which has no text */
    assert_int_equal(cut.ends, 1);
    assert_memory_equal(cut.ids, r.ids, cut.count * sizeof *r.ids);
    expect_text(f, &cut, r.ids, first);
    expect_session(f, &cut);

    forget(&cut);
    options.ignore_eos = 1;
    options.logprobs = 0;
    assert_int_equal(run(f, &options), KVS_FINISH_LENGTH);
    assert_int_equal(cut.count, 20);
    assert_int_equal(cut.ends, 0);
    for (size_t i = 0; i < cut.count; i++)
        assert_true(isnan(cut.logprobs[i]));
    assert_memory_equal(cut.ids, r.ids, cut.count * sizeof *r.ids);
    forget(&cut);
    forget(&r);
}

/* Pieces of a generated text are used as stop strings: the text then ends before the first
 * occurrence of the piece. */
static void stop_strings_end_the_generation(void **state)
{
    fixture *f = *state;
    const kvs_sampling sampling = sampling_of(0.9);
    record r = {0};
    kvs_generate_options options = options_of(&r, &sampling);
    char *all;
    size_t size;

    options.max_tokens = 30;
    options.tokenizer = f->tokenizer;
    run(f, &options);
    assert_int_equal(kvs_tokenizer_decode(&all, &size, f->tokenizer, r.ids, 30, NULL), KVS_OK);
    for (size_t at = 0; at + 4 < size; at += 3) {
        char stop[8] = {0};
        const char *const stops[] = {"this does not occur", stop};
        const char *found;
        record cut = {0};

        memcpy(stop, all + at, at % 2 ? 4 : 2);
        if (strlen(stop) < (at % 2 ? 4 : 2))
            continue; /* the piece contains a NUL */
        options.stops = stops;
        options.stop_count = 2;
        options.user = &cut;
        assert_int_equal(run(f, &options), KVS_FINISH_STOP);
        found = all;
        while (memcmp(found, stop, strlen(stop)) != 0)
            found++;
        assert_int_equal(cut.text.length, found - all);
        assert_true(cut.text.length == 0 || memcmp(cut.text.data, all, cut.text.length) == 0);
        assert_memory_equal(cut.ids, r.ids, cut.count * sizeof *r.ids);
        expect_session(f, &cut);
        forget(&cut);
    }
    kvs_text_free(all);
    forget(&r);
}

/* Text that could be the beginning of a stop string is passed to the callback later, at the latest
 * in a last call without a token. */
static void text_held_back_is_passed_at_the_end(void **state)
{
    fixture *f = *state;
    const kvs_sampling sampling = sampling_of(0.9);
    record r = {0}, again = {0};
    kvs_generate_options options = options_of(&r, &sampling);
    char stop[] = "?never";
    const char *const stops[] = {stop};
    size_t ascii = 0;

    options.max_tokens = 40;
    options.tokenizer = f->tokenizer;
    run(f, &options);
    for (size_t i = 1; i < 39; i++) /* finds an ASCII character after another one */
        if (r.ids[i] > 0 && r.ids[i] < 128 && r.ids[i - 1] < 128 && r.ids[i + 1] != r.ids[i])
            ascii = i;
    assert_true(ascii > 0);
    stop[0] = (char)r.ids[ascii];
    options.max_tokens = ascii + 1;
    options.stops = stops;
    options.stop_count = 1;
    options.user = &again;
    assert_int_equal(run(f, &options), KVS_FINISH_LENGTH);
    assert_int_equal(again.count, ascii + 1);
    assert_int_equal(again.calls, again.count + 1);
    expect_text(f, &again, r.ids, ascii + 1);
    forget(&again);
    forget(&r);
}

static void callbacks_can_stop_the_generation(void **state)
{
    fixture *f = *state;
    const kvs_sampling sampling = sampling_of(0);
    record r = {.stop_after = 4};
    kvs_generate_options options = options_of(&r, &sampling);
    kvs_finish reason = (kvs_finish)99;
    kvs_err err;

    assert_int_equal(kvs_generate(&reason, f->session, f->prompt, PROMPT, &options, &err),
                     KVS_E_STOPPED);
    assert_string_equal(err.message, "the callback stopped the generation at token 3");
    assert_int_equal(err.status, KVS_E_STOPPED);
    assert_int_equal(reason, 99);
    assert_int_equal(r.count, 4);
    expect_session(f, &r);
    forget(&r);
}

/* ---- wrong arguments ---- */

static void wrong_arguments_change_nothing(void **state)
{
    fixture *f = *state;
    const size_t live = kvsi_memory_live();
    record r = {0};
    kvs_sampling sampling = sampling_of(-1);
    kvs_generate_options options = options_of(&r, &sampling), empty = {0};
    const char *const stops[] = {"a", ""};
    const int32_t bad[] = {1, VOCAB}, negative[] = {-1};
    int32_t many[MOST] = {0};
    kvs_err err;

    assert_int_equal(kvs_generate(NULL, NULL, f->prompt, PROMPT, NULL, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "session is NULL");
    assert_int_equal(kvs_generate(NULL, f->session, NULL, 1, NULL, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "prompt is NULL");
    assert_int_equal(kvs_generate(NULL, f->session, NULL, 0, NULL, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "the prompt is empty, and so is the session");
    assert_int_equal(kvs_generate(NULL, f->session, bad, 2, NULL, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "token 1 is id 300, expected 0 to 299");
    assert_int_equal(kvs_generate(NULL, f->session, negative, 1, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_generate(NULL, f->session, many, MOST, NULL, &err), KVS_E_LIMIT);
    assert_int_equal(kvs_generate(NULL, f->session, f->prompt, 1, &empty, &err), KVS_E_INVALID);
    assert_int_equal(kvs_generate(NULL, f->session, f->prompt, 1, &options, &err), KVS_E_INVALID);
    assert_non_null(strstr(err.message, "temperature is -1"));
    options.sampling = NULL;
    options.stops = stops;
    options.stop_count = 2;
    assert_int_equal(kvs_generate(NULL, f->session, f->prompt, 1, &options, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "stop strings need a tokenizer");
    options.tokenizer = f->tokenizer;
    assert_int_equal(kvs_generate(NULL, f->session, f->prompt, 1, &options, &err), KVS_E_INVALID);
    options.stops = NULL;
    assert_int_equal(kvs_generate(NULL, f->session, f->prompt, 1, &options, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "stops is NULL, expected 2 strings");
    options.stops = (const char *const[]){"a", NULL};
    assert_int_equal(kvs_generate(NULL, f->session, f->prompt, 1, &options, &err), KVS_E_INVALID);
    assert_string_equal(err.message, "stop string 1 is NULL");
    assert_int_equal(r.calls, 0);
    assert_int_equal(kvs_session_length(f->session), 0);
    assert_int_equal(kvsi_memory_live(), live);
}

static void samplers_refuse_null(void **state)
{
    kvs_sampler *sampler = NULL;
    const float logits[] = {0, 1};
    const int32_t id = 1;
    kvs_err err;

    (void)state;
    assert_int_equal(kvs_sampler_create(NULL, 2, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_sampler_create(&sampler, 0, NULL, &err), KVS_E_INVALID);
    assert_int_equal(kvs_sampler_create(&sampler, SIZE_MAX, NULL, &err), KVS_E_INVALID);
    assert_null(sampler);
    assert_int_equal(kvs_sampler_create(&sampler, 2, NULL, &err), KVS_OK);
    assert_int_equal(kvs_sampler_accept(NULL, &id, 1, &err), KVS_E_INVALID);
    assert_int_equal(kvs_sampler_accept(sampler, NULL, 1, &err), KVS_E_INVALID);
    assert_int_equal(kvs_sampler_accept(sampler, NULL, 0, &err), KVS_OK);
    assert_int_equal(kvs_sampler_next(NULL, logits), -1);
    assert_int_equal(kvs_sampler_next(sampler, NULL), -1);
    kvs_sampler_free(sampler);
    kvs_sampler_free(NULL);
}

#define WITH_MODEL(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tokens_are_those_of_the_sampler),
        WITH_MODEL(full_sessions_end_the_generation),
        WITH_MODEL(generation_continues),
        WITH_MODEL(defaults_are_enough),
        WITH_MODEL(eos_ends_the_generation),
        WITH_MODEL(stop_strings_end_the_generation),
        WITH_MODEL(text_held_back_is_passed_at_the_end),
        WITH_MODEL(callbacks_can_stop_the_generation),
        WITH_MODEL(wrong_arguments_change_nothing),
        cmocka_unit_test(samplers_refuse_null),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
