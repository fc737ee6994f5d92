/* serve/engine.h - one thread that runs the model for all requests.
 *
 * A job is one request: its prompts, and choices, the texts to generate (`n` for each prompt).
 * Each of a fixed number of slots runs one choice.  A pass feeds one token of every text that is
 * being generated and, within a slice of time, tokens of prompts (serve/schedule.h).  Free slots go
 * to the job with the fewest of them, so that a request with many prompts does not keep others
 * waiting.
 *
 * The model must be of a runtime in exact mode.  A choice then has the same bits alone, beside any
 * others, and after a copied prefix (serve/prefixes.h). */
#ifndef KVSI_SERVE_ENGINE_H
#define KVSI_SERVE_ENGINE_H

#include "serve/prefixes.h"
#include "serve/request.h"

typedef struct kvsi_engine kvsi_engine;
typedef struct kvsi_job kvsi_job;

typedef enum kvsi_ending {
    KVSI_ENDED_LENGTH, /* max_tokens */
    KVSI_ENDED_EOS,
    KVSI_ENDED_ID,   /* one of stop_token_ids */
    KVSI_ENDED_TEXT, /* one of the stop texts */
} kvsi_ending;

/* One generated text.  Everything but `own` may be read in the callbacks of the job. */
typedef struct kvsi_choice {
    size_t prompt, sample; /* indices */
    kvsi_text text;        /* what is certain of it */
    size_t count;          /* generated tokens, with the one that ends the text */
    int32_t *ids;
    double *logprobs;     /* [count], if they are wanted */
    int32_t *top_ids;     /* [count, top] */
    double *top_logprobs; /* [count, top] */
    int is_done;
    kvsi_ending ending;
    const char *stop_text; /* of KVSI_ENDED_TEXT */
    struct kvsi_choice_state {
        int phase, slot;
        kvs_session *session;
        struct kvsi_chooser *chooser;
        kvs_detokenizer *detokenizer;
        size_t fed, ids_capacity, logprobs_capacity, top_ids_capacity, top_logprobs_capacity;
        uint64_t arrival;
        int32_t next;
    } own;
} kvsi_choice;

typedef struct kvsi_job_prompt {
    int32_t *ids;
    size_t count;
    kvsi_scores scores; /* if log-probabilities of the prompt are wanted */
    int is_fed;
} kvsi_job_prompt;

struct kvsi_job {
    /* Set by the caller; the engine owns none of it. */
    kvsi_request request;
    kvsi_job_prompt *prompts;
    size_t prompt_count;
    const char *stop_text; /* one more stop text, NULL = none */
    int32_t stop_id;       /* one more token that ends the text, -1 = none */
    uint64_t owner;        /* of prefixes that may be shared */
    void *user;
    /* Both are called on the engine's thread.  `changed`: a choice has a new token or is done;
     * anything but 0 cancels the job.  `done`: the job is over and belongs to the caller again. */
    int (*changed)(kvsi_job *job, kvsi_choice *choice);
    void (*done)(kvsi_job *job);

    /* Results. */
    kvsi_choice *choices; /* prompt by prompt */
    size_t choice_count;
    kvsi_refusal refusal; /* status 0 = the job succeeded */
    int is_cancelled;
    size_t cached, generated;                      /* tokens */
    double submitted, started, first_token, ended; /* kvsi_clock_seconds(); 0 = never */

    /* Used by the engine alone. */
    kvsi_job *next;
    size_t left, active; /* choices that are not done, and those in slots */
    int32_t *ends;
    size_t end_count;
};

typedef struct kvsi_engine_options {
    const kvs_model *model;
    const kvs_tokenizer *tokenizer;
    size_t slots, context, pass_tokens, queue;
    kvs_dtype cache;
    double slice_seconds, job_seconds; /* of a pass with generation, of a job */
    uint64_t prefix_bytes;
} kvsi_engine_options;

typedef struct kvsi_engine_stats {
    uint64_t jobs, jobs_failed, jobs_cancelled, passes;
    uint64_t prompt_tokens, cached_tokens, generated_tokens; /* of jobs that are over */
    uint64_t fed_tokens;
    double pass_seconds;
    size_t active, waiting; /* choices in slots, jobs without one */
    kvsi_prefix_stats prefixes;
} kvsi_engine_stats;

kvs_status kvsi_engine_create(kvsi_engine **out, const kvsi_engine_options *options, kvs_err *err);
/* Hands over a job.  On failure the caller keeps it, and `refusal` has 429 or 503. */
kvs_status kvsi_engine_submit(kvsi_engine *e, kvsi_job *job, kvsi_refusal *refusal);
/* Cancels the job of that user, if the engine has it; `done` is called later. */
void kvsi_engine_cancel(kvsi_engine *e, const void *user);
/* Refuses jobs from now on. */
void kvsi_engine_drain(kvsi_engine *e);
/* Cancels all jobs, and returns when `done` was called for each.  Later ones are refused. */
void kvsi_engine_stop(kvsi_engine *e);
/* Stops and frees the engine.  NULL does nothing. */
void kvsi_engine_free(kvsi_engine *e);
kvsi_engine_stats kvsi_engine_get_stats(kvsi_engine *e);

/* Frees the results of a job that the engine does not have. */
void kvsi_job_release_results(kvsi_job *job);

#endif
