/* serve/schedule.h - how many tokens of which prompts the next pass feeds.
 *
 * While texts are generated, a pass may take as long as a slice of time, so the number of tokens of
 * prompts in it follows from their measured cost.  Half of them belong to the prompt that came
 * first, so that every prompt gets on; the other half to the one with the fewest tokens left, so
 * that a short prompt does not wait for a long one. */
#ifndef KVSI_SERVE_SCHEDULE_H
#define KVSI_SERVE_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>

/* The measured cost of tokens, in seconds; all 0 = nothing was measured. */
typedef struct kvsi_costs {
    double pass;   /* a pass in which no prompt is fed */
    double token;  /* a token of a prompt */
    size_t tokens; /* of prompts in the last pass that had any */
} kvsi_costs;

/* Notes the duration of a pass with `decoding` generated tokens and `tokens` tokens of prompts. */
void kvsi_costs_note(kvsi_costs *costs, double seconds, size_t decoding, size_t tokens);
/* Returns how many tokens of prompts fit into a slice, at least 8. */
size_t kvsi_costs_slice(const kvsi_costs *costs, double slice_seconds);

typedef struct kvsi_waiting_prompt {
    size_t left;      /* tokens that are not fed */
    uint64_t arrival; /* the lower, the earlier; all are different */
    size_t now;       /* result: tokens in the next pass */
} kvsi_waiting_prompt;

/* Divides `tokens` among the prompts. */
void kvsi_divide_slice(kvsi_waiting_prompt *prompts, size_t count, size_t tokens);

#endif
