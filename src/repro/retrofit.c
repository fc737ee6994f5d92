/* A trained vanilla model that gets the shift, against one that is trained on without it. */
#include "repro/curves.h"
#include "repro/scales.h"
#include "repro/text_arms.h"

enum { FIRST, FIRST_KV, CONTINUED, RETROFITTED, FROM_START, ARMS };

static const char *const names[ARMS] = {
    [FIRST] = "vanilla, first half",
    [FIRST_KV] = "KV shifting, first half",
    [CONTINUED] = "vanilla continued",
    [RETROFITTED] = "vanilla, then KV shifting",
    [FROM_START] = "KV shifting from the start",
};

/* The second halves see other text than the first, in the same order in all arms. */
enum { LATER_DATA = 1000 };

static kvs_status plan(kvsi_plan *p, kvs_err *err)
{
    static const size_t bases[ARMS] = {
        [CONTINUED] = FIRST, [RETROFITTED] = FIRST, [FROM_START] = FIRST_KV};
    static const int shifted[ARMS] = {[FIRST_KV] = 1, [RETROFITTED] = 1, [FROM_START] = 1};

    for (size_t i = 0; i < ARMS; i++) {
        kvsi_planned run = {.is_base = i <= FIRST_KV};

        TRY(kvsi_scale_text(&run, p, KVSI_TEXT_SMALL, "paper-1.5b", err));
        run.train.steps = (run.train.steps + 1) / 2;
        run.eval_every = (run.train.steps + 3) / 4;
        run.train.schedule = KVSI_SCHEDULE_CONSTANT;
        kvsi_shift_arm(&run, shifted[i], run.model.layers);
        kvsi_name_arm(&run, "%s", names[i]);
        if (i > FIRST_KV) {
            run.continues = names[bases[i]];
            run.later_data = LATER_DATA;
        }
        if (i == RETROFITTED)
            run.model.shift.init = KVSI_SHIFT_INIT_IDENTITY;
        TRY(kvsi_plan_add(p, &run, err));
    }
    return KVS_OK;
}

static kvs_status conclude(kvsi_claims *out, const kvsi_results *results, kvs_err *err)
{
    static const kvsi_loss_claim claims[] = {
        {RETROFITTED, CONTINUED, KVSI_LOWER,
         "a trained vanilla model gains more from more text with the shift added than without",
         "not tried"},
        {FROM_START, RETROFITTED, KVSI_NOT_LOWER,
         "a shift from the start is no better than one added halfway", "not tried"},
    };

    (void)err;
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        kvsi_claim_loss(out, results, claims + i);
    kvsi_draw_losses(out, results, CONTINUED, ARMS - CONTINUED, "losses",
                     "The second half of the training. Strong lines: loss on the validation text, "
                     "mean over the seeds with its standard error; thin ones: single seeds; pale "
                     "ones: on the training text. Below: the difference within each seed.");
    kvsi_claims_remark(out, "The shift is added as the identity, so that the model starts with the "
                            "same logits. All second halves start with new moments and a warm-up, "
                            "and see the same text in the same order.");
    return kvsi_claims_check(out);
}

const kvsi_experiment kvsi_repro_retrofit = {
    .about =
        {
            .name = "retrofit",
            .figure = "not in the paper",
            .claim =
                "The shift can be added to a trained model: at equal tokens it then ends below "
                "the model that is trained on without it.",
            .settings =
                {KVSI_SMOKE_TEXT,
                 "0.3 million parameters, two times 1.6 million tokens, vocabulary 1024, windows "
                 "of 256 tokens, constant rate 2e-3",
                 "the paper's 1.5B model, batch and rate, two times 5 billion tokens",
                 "0.5 million parameters, two times 10 million tokens (0.1 epochs each), "
                 "vocabulary "
                 "1024, windows of 256 tokens, constant rate 2e-3"},
            .seeds = {1, 3, 1, 6},
            .learns_text = 1,
        },
    .plan = plan,
    .conclude = conclude,
};
