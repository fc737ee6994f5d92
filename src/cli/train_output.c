#include "cli/train_output.h"

#include "base/memory.h"
#include "base/text.h"
#include "cli/cli.h"
#include "cli/train_records.h"
#include "kvshift/kvshift_files.h"
#include "kvshift/kvshift_lab.h"
#include "kvshift/kvshift_mpi.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

/* ---- the plan: --dry-run --------------------------------------------------------------------- */

static void print_bytes(const char *what, double bytes)
{
    char text[32];

    kvsi_format_count(text, sizeof text, bytes);
    printf("  %-12s%sB\n", what, text);
}

/* Host and threads of each rank. */
static void print_ranks(const kvs_comm *comm, const kvsi_train_options *s)
{
    const size_t ranks = kvs_comm_size(comm);

    printf("ranks         %zu, %" PRIu64 " sequences per step each\n", ranks,
           kvsi_train_count(s->train, "batch") / ranks);
    for (size_t r = 0; r < ranks; r++) {
        const int threads = s->threads > 0 ? (int)s->threads : kvs_comm_cores(comm, r);

        printf("  rank %-7zu%s, %d thread%s\n", r, kvs_comm_host(comm, r), threads,
               threads == 1 ? "" : "s");
    }
}

static void print_exchange(const kvs_plan *plan, const kvsi_train_options *s)
{
    printf("sent per rank and step, shard %s\n", kvsi_train_word(s->train, "shard").text);
    print_bytes("gradients", plan->gradients_sent);
    print_bytes("weights", plan->weights_sent);
}

double kvsi_train_flops(const kvs_plan *plan, double steps)
{
    return plan->flops_per_token * plan->tokens_per_step * steps;
}

double kvsi_train_seconds(const kvs_plan *plan, const kvsi_train_setup *w,
                          const kvsi_train_options *s, double steps)
{
    return kvs_train_seconds(plan, s->model, s->train, steps, kvs_train_peak(w->rt, s->train));
}

static kvs_status print_plan_json(const kvs_plan *plan, double seconds, double steps, kvs_err *err)
{
    return kvsi_cli_print_json(
        json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:f, s:f, s:f, s:f}", "parameters",
                  (json_int_t)plan->parameters, "ranks", (json_int_t)plan->ranks, "weight_bytes",
                  (json_int_t)plan->weight_bytes, "gradient_bytes",
                  (json_int_t)plan->gradient_bytes, "moment_bytes", (json_int_t)plan->moment_bytes,
                  "exchange_bytes", (json_int_t)plan->exchange_bytes, "pass_bytes",
                  (json_int_t)plan->pass_bytes, "total_bytes", (json_int_t)plan->total_bytes,
                  "tokens_per_step", plan->tokens_per_step, "steps", steps, "flops",
                  kvsi_train_flops(plan, steps), "seconds", seconds),
        err);
}

kvs_status kvsi_train_print_plan(const kvsi_train_setup *w, const kvsi_train_options *s,
                                 kvs_err *err)
{
    kvs_plan plan;
    const double steps = (double)kvsi_train_count(s->train, "steps");
    char parameters[32], work[32], tokens[32], all[32], time[32];
    double seconds;
    const kvs_status st = kvs_train_plan(&plan, w->rt, s->model, w->data, s->train, err);

    if (st != KVS_OK || kvs_comm_rank(w->comm) > 0)
        return st;
    seconds = kvsi_train_seconds(&plan, w, s, steps);
    if (s->json)
        return print_plan_json(&plan, seconds, steps, err);
    kvsi_format_count(all, sizeof all, kvsi_train_flops(&plan, steps));
    kvsi_format_duration(time, sizeof time, seconds);
    kvsi_format_count(parameters, sizeof parameters, (double)plan.parameters);
    kvsi_format_count(tokens, sizeof tokens, plan.tokens_per_step);
    kvsi_format_count(work, sizeof work, plan.flops_per_token * plan.tokens_per_step);
    if (!w->data)
        printf("planned for   text in windows of %zu tokens; no --data or --task was given\n",
               kvsi_model_count(s->model, "context"));
    if (plan.ranks > 1)
        print_ranks(w->comm, s);
    printf("parameters    %s\n%s\n", parameters, plan.ranks > 1 ? "memory per rank" : "memory");
    print_bytes("weights", (double)plan.weight_bytes);
    print_bytes("gradients", (double)plan.gradient_bytes);
    print_bytes("moments", (double)plan.moment_bytes);
    if (plan.exchange_bytes > 0)
        print_bytes("exchange", (double)plan.exchange_bytes);
    print_bytes("passes", (double)plan.pass_bytes);
    print_bytes("total", (double)plan.total_bytes);
    if (plan.ranks > 1)
        print_exchange(&plan, s);
    printf("step          %s tokens on average, %sFLOP\n", tokens, work);
    printf("run           %g steps, %sFLOP, about %s on %s when idle\n", steps, all, time,
           plan.ranks > 1 ? "machines like this one" : "this machine");
    return KVS_OK;
}

/* ---- sequences of a task: --show ------------------------------------------------------------- */

typedef struct buffers {
    int32_t *ids, *targets;
    uint8_t *scored;
} buffers;

static void print_words(const char *label, const kvs_data *task, const int32_t *ids, size_t count)
{
    printf("%-9s", label);
    for (size_t i = 0; i < count; i++) {
        char word[64];

        if (ids[i] >= 0)
            kvs_task_word(word, sizeof word, task, ids[i]);
        printf(" %s", ids[i] >= 0 ? word : "-");
    }
    printf("\n");
}

static kvs_status print_text(const kvs_tokenizer *tokenizer, const int32_t *ids, size_t count,
                             kvs_err *err)
{
    char *text = NULL;
    size_t size;
    kvs_status st;

    TRY_OUT(kvs_tokenizer_decode(&text, &size, tokenizer, ids, count, err));
    fwrite(text, 1, size, stdout);
    printf("\n");
out:
    kvs_text_free(text);
    return st;
}

static void print_scored(const buffers *b, const kvs_data *task, size_t count)
{
    printf("%-9s", "scored");
    for (size_t i = 0; i < count; i++) {
        char word[64];

        if (!b->scored[i])
            continue;
        kvs_task_word(word, sizeof word, task, b->targets[i]);
        printf(" %zu:%s", i, word);
    }
    printf("\n");
}

/* Prints the text of each run of targets: the responses. */
static kvs_status print_responses(const kvs_tokenizer *tokenizer, const buffers *b, size_t count,
                                  kvs_err *err)
{
    for (size_t from = 0, to; from < count; from = to + 1) {
        to = from;
        while (to < count && b->targets[to] >= 0)
            to++;
        if (to == from)
            continue;
        printf("%-9s", "loss on");
        TRY(print_text(tokenizer, b->targets + from, to - from, err));
    }
    return KVS_OK;
}

kvs_status kvsi_train_print_sequences(const kvsi_train_setup *w, const kvsi_train_options *s,
                                      kvs_err *err)
{
    const size_t longest = kvs_data_max_length(w->data);
    const uint64_t seed = kvsi_train_count(s->train, "seed");
    buffers b = {kvsi_alloc(longest, sizeof *b.ids), kvsi_alloc(longest, sizeof *b.targets),
                 kvsi_alloc(longest, sizeof *b.scored)};
    kvs_status st = KVS_OK;

    if (!b.ids || !b.targets || !b.scored) {
        st = kvsi_fail(err, KVS_E_NOMEM, "out of memory for sequences of %zu tokens", longest);
        goto out;
    }
    for (size_t i = 0; i < s->show; i++) {
        const size_t length =
            kvs_data_sequence(b.ids, b.targets, b.scored, w->data, seed, KVS_STREAM_TRAIN, i);

        printf("%ssequence %zu, %zu tokens\n", i ? "\n" : "", i, length);
        if (w->tokenizer) {
            TRY_OUT(print_text(w->tokenizer, b.ids, length, err));
        } else {
            print_words("fed", w->data, b.ids, length);
            print_words("target", w->data, b.targets, length);
        }
        if (kvsi_train_has_conversations(w))
            TRY_OUT(print_responses(w->tokenizer, &b, length, err));
        else
            print_scored(&b, w->data, length);
    }
out:
    kvsi_free(b.ids);
    kvsi_free(b.targets);
    kvsi_free(b.scored);
    return st;
}

/* ---- the profile ----------------------------------------------------------------------------- */

enum { WARM_UP = 2 };

void kvsi_train_profile_add(kvsi_train_profile *profile, const kvs_step_record *record)
{
    if (record->step <= WARM_UP)
        return;
    profile->steps++;
    profile->seconds += record->seconds;
    profile->sending += record->sending;
    profile->waiting += record->waiting;
}

static double mean(const kvsi_train_profile *p, double sum)
{
    return p->steps > 0 ? sum / (double)p->steps : NAN;
}

/* The part of the transfer time during which the rank computed; NaN without transfers. */
static double overlap(const kvsi_train_profile *p)
{
    return p->sending > 0 ? 1 - p->waiting / p->sending : NAN;
}

static void print_profile(const kvsi_train_profile *p)
{
    char peak[32], planned[32];

    if (p->steps == 0)
        return;
    printf("step      %.1f ms", 1e3 * mean(p, p->seconds));
    if (p->sending > 0)
        printf("; transfers %.1f ms, %.1f ms of them waited for (%.0f %% overlapped)",
               1e3 * mean(p, p->sending), 1e3 * mean(p, p->waiting), 100 * overlap(p));
    printf("\n");
    kvsi_format_count(peak, sizeof peak, kvsi_memory_peak());
    kvsi_format_count(planned, sizeof planned, p->planned);
    printf("memory    %sB resident at most, %sB planned\n", peak, planned);
}

static json_t *profile_to_json(const kvsi_train_profile *p)
{
    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:f}", "steps", (json_int_t)p->steps,
                     "step_seconds", kvsi_json_number(mean(p, p->seconds)), "transfer_seconds",
                     kvsi_json_number(mean(p, p->sending)), "waiting_seconds",
                     kvsi_json_number(mean(p, p->waiting)), "overlapped",
                     kvsi_json_number(overlap(p)), "peak_bytes",
                     kvsi_json_number(kvsi_memory_peak()), "planned_bytes", p->planned);
}

/* ---- the result ------------------------------------------------------------------------------ */

static double token_rate(const kvs_train_result *result)
{
    return result->seconds > 0 ? (double)result->tokens / result->seconds : 0;
}

static json_t *lengths_to_json(const kvs_evaluation *final)
{
    json_t *list = json_array();

    for (size_t i = 0; i < final->buckets; i++) {
        const kvs_length_bucket *b = final->bucket + i;

        json_array_append_new(list,
                              json_pack("{s:I, s:I, s:I, s:o}", "from", (json_int_t)b->from, "to",
                                        (json_int_t)b->to, "scored", (json_int_t)b->scored,
                                        "accuracy", kvsi_json_number(b->accuracy)));
    }
    return list;
}

static kvs_status print_json(const kvsi_train_setup *w, const kvsi_train_options *s,
                             const kvs_train_result *result, const kvsi_train_profile *profile,
                             kvs_err *err)
{
    json_t *const step_at_99 =
        result->step_at_99 ? json_integer((json_int_t)result->step_at_99) : json_null();
    /* clang-format off */
    json_t *const object =
        json_pack("{s:s, s:I, s:o, s:o, s:o, s:f, s:I, s:f, s:I, s:I, s:I, s:i, s:s, s:o}",
                  "task", s->task,
                  "steps", (json_int_t)result->steps,
                  "final_accuracy", kvsi_json_number(result->final.accuracy),
                  "final_loss", kvsi_json_number(result->final.loss),
                  "step_at_99", step_at_99,
                  "seconds", result->seconds,
                  "tokens", (json_int_t)result->tokens,
                  "tokens_per_s", token_rate(result),
                  "parameters", (json_int_t)kvs_model_parameters(w->model),
                  "seed", (json_int_t)kvsi_train_count(s->train, "seed"),
                  "ranks", (json_int_t)kvs_comm_size(w->comm),
                  "threads", kvs_runtime_threads(w->rt),
                  "cpu_level", kvs_runtime_cpu_level(w->rt),
                  "out", kvsi_json_path(s->out));
    /* clang-format on */

    if (result->final.buckets > 0)
        json_object_set_new(object, "accuracy_by_length", lengths_to_json(&result->final));
    if (kvsi_train_is_task(s, "ngram"))
        json_object_set_new(object, "x2_only_ceiling",
                            kvsi_json_number(kvs_ngram_ceiling(w->data)));
    if (s->profile)
        json_object_set_new(object, "profile", profile_to_json(profile));
    return kvsi_cli_print_json(object, err);
}

/* Lengths without sequences have no accuracy. */
static void print_lengths(const kvs_evaluation *final)
{
    const char *between = "";

    printf("by length ");
    for (size_t i = 0; i < final->buckets; i++) {
        const kvs_length_bucket *b = final->bucket + i;

        if (b->scored == 0)
            continue;
        printf("%s%zu-%zu: %.2f %%", between, b->from, b->to, 100 * b->accuracy);
        between = ", ";
    }
    printf("\n");
}

static void print_accuracy(const kvsi_train_setup *w, const kvsi_train_options *s,
                           const kvs_evaluation *final)
{
    const uint64_t sequences = kvsi_train_count(s->train, "eval-sequences");

    if (isnan(final->accuracy))
        printf("accuracy  unknown: no position of %" PRIu64 " sequences is scored (loss %.4f)\n",
               sequences, final->loss);
    else
        printf("accuracy  %.2f %% on %" PRIu64 " %ssequences (loss %.4f)\n", 100 * final->accuracy,
               sequences, kvsi_train_is_task(s, "ngram") ? "" : "fresh ", final->loss);
    if (final->buckets > 0)
        print_lengths(final);
    if (kvsi_train_is_task(s, "ngram"))
        printf("ceiling   %.2f %% for a guess that sees only x2\n",
               100 * kvs_ngram_ceiling(w->data));
}

static void print_text_result(const kvsi_train_setup *w, const kvsi_train_options *s,
                              const kvs_train_result *result, const kvsi_train_profile *profile)
{
    char duration[32], rate[32];

    kvsi_format_duration(duration, sizeof duration, result->seconds);
    kvsi_format_count(rate, sizeof rate, token_rate(result));
    if (s->data)
        printf("loss      %.4f, perplexity %.3f on %" PRIu64 " %s of the validation text\n",
               result->final.loss, exp(result->final.loss),
               kvsi_train_count(s->train, "eval-sequences"),
               kvsi_train_has_conversations(w) ? "conversations" : "windows");
    else
        print_accuracy(w, s, &result->final);
    if (s->data)
        printf("steps     %" PRIu64 "\n", result->steps);
    else if (result->step_at_99)
        printf("99 %%      reached at step %" PRIu64 " of %" PRIu64 "\n", result->step_at_99,
               result->steps);
    else
        printf("99 %%      not reached in %" PRIu64 " steps\n", result->steps);
    printf("time      %s, %s tokens/s\n", duration, rate);
    if (s->profile)
        print_profile(profile);
    if (s->out)
        printf("files     %s: model.safetensors, config.json, %strain.jsonl, result.json\n", s->out,
               w->tokenizer ? "tokenizer.json, " : "");
    else
        printf("files     none: --out none\n");
}

kvs_status kvsi_train_print_result(const kvsi_train_setup *w, const kvsi_train_options *s,
                                   const kvs_train_result *result,
                                   const kvsi_train_profile *profile, kvs_err *err)
{
    if (s->json)
        return print_json(w, s, result, profile, err);
    print_text_result(w, s, result, profile);
    return KVS_OK;
}
