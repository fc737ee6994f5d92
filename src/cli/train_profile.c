#include "cli/train_profile.h"

#include "base/memory.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>

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

/* Of the time that transfers took, what passed while the rank computed; NaN if there were none. */
static double overlap(const kvsi_train_profile *p)
{
    return p->sending > 0 ? 1 - p->waiting / p->sending : NAN;
}

void kvsi_train_profile_print(const kvsi_train_profile *profile)
{
    const kvsi_train_profile *p = profile;
    char peak[32], planned[32];

    if (p->steps == 0)
        return;
    printf("a step    %.1f ms", 1e3 * mean(p, p->seconds));
    if (p->sending > 0)
        printf("; transfers %.1f ms, %.1f ms of them waited for (%.0f %% overlapped)",
               1e3 * mean(p, p->sending), 1e3 * mean(p, p->waiting), 100 * overlap(p));
    printf("\n");
    kvsi_format_count(peak, sizeof peak, kvsi_memory_peak());
    kvsi_format_count(planned, sizeof planned, p->planned);
    printf("memory    %sB resident at most, %sB planned\n", peak, planned);
}

json_t *kvsi_train_profile_json(const kvsi_train_profile *profile)
{
    const kvsi_train_profile *p = profile;

    return json_pack("{s:I, s:o, s:o, s:o, s:o, s:o, s:f}", "steps", (json_int_t)p->steps,
                     "step_seconds", kvsi_json_number(mean(p, p->seconds)), "transfer_seconds",
                     kvsi_json_number(mean(p, p->sending)), "waiting_seconds",
                     kvsi_json_number(mean(p, p->waiting)), "overlapped",
                     kvsi_json_number(overlap(p)), "peak_bytes",
                     kvsi_json_number(kvsi_memory_peak()), "planned_bytes", p->planned);
}
