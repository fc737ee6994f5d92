#include "report/report_page.h"

#include "kvshift/kvshift_lab.h"
#include "report/report_tables.h"

#include <inttypes.h>
#include <stdio.h>

static const char accuracy_caption[] =
    "Share of right answers on fresh training data, mean of the last 20 batches.\n"
    "The step axis is logarithmic.";

static const char accuracy_note[] =
    "Accuracy and loss are those of the finished model on sequences\n"
    "it was never trained on. The step is the first at which the mean of the last\n"
    "20 batches was at least 99\u00a0%.";

static const char loss_caption[] =
    "Strong lines: loss on the validation text, mean over the runs of an arm, with the\n"
    "standard error where there are several. Thin lines: single runs. Pale lines: loss on the\n"
    "training text, a running mean. The lower panel, if there is one, shows the difference "
    "between\n"
    "arms within each seed, with its standard error.";

static const char arms_note[] =
    "An arm is all runs that differ in nothing but their seed. Loss is in nats per\n"
    "token on text the models were never trained on; ± is the standard error over the runs\n"
    "(sample standard deviation, with n\u00a0−\u00a01, over √n). Perplexity is e to the mean\n"
    "loss. Tokens and time are means over the runs.";

static const char benchmarks_caption[] =
    "Scores on benchmarks during training, with their standard errors over documents.";

static const char training_caption[] =
    "Learning rate, gradient norm before clipping, and the means of the shift's taps over all\n"
    "heads: marks are the tap of the current token (α1, β1), dashes that of the previous ones\n"
    "(α2, β2). The last panels show the share of the previous tokens in each head at the end, by\n"
    "layer; one point is one head.";

static const char costs_caption[] =
    "The same validation losses against the time of the training steps, without evaluations, and\n"
    "against the work, counted as 6 operations per parameter and token.";

static void add_explanation(kvsi_text *page)
{
    kvsi_text_add(page, "<p>Each run trains a model with the settings below. <b>Shift</b> names "
                        "what is mixed with the\n"
                        "previous tokens, by a few learned numbers per head: keys (k), values "
                        "(v), queries (q), or\n"
                        "<i>none</i> for ordinary attention.</p>\n");
}

static void add_remarks(kvsi_text *page, const kvs_report *report)
{
    if (report->remark_count == 0)
        return;
    kvsi_text_add(page, "<ul class=\"remarks\">\n");
    for (size_t i = 0; i < report->remark_count; i++) {
        kvsi_text_add(page, "<li>");
        kvsi_text_add_xml(page, report->remarks[i]);
        kvsi_text_add(page, "</li>\n");
    }
    kvsi_text_add(page, "</ul>\n");
}

static void add_difference(kvsi_page *page, const kvs_report *report, const kvsi_difference *d)
{
    const kvsi_arm *arms = report->arms.arms;
    kvsi_text title = {0}, note = {0};
    kvsi_table table;

    kvsi_text_format(&title, "%s − %s", arms[d->summary.arm].label,
                     arms[d->summary.baseline].label);
    kvsi_explain_difference(&note, report, d);
    kvsi_page_heading(page, 3, title.data ? title.data : "");
    kvsi_table_of_difference(&table, report, d);
    kvsi_page_table(page, &table);
    kvsi_page_note(page, note.data ? note.data : "");
    page->text.failed |= title.failed | note.failed;
    kvsi_text_release(&title);
    kvsi_text_release(&note);
}

static void add_text_tables(kvsi_page *page, const kvs_report *report)
{
    kvsi_table table;

    kvsi_table_of_arms(&table, report);
    kvsi_page_table(page, &table);
    kvsi_page_note(page, arms_note);
    if (report->arms.difference_count > 0)
        kvsi_page_heading(page, 2, "Seed by seed");
    for (size_t i = 0; i < report->arms.difference_count; i++)
        add_difference(page, report, report->arms.differences + i);
    if (report->arms.count > 1) {
        kvsi_page_heading(page, 2, "Settings that differ");
        kvsi_table_of_settings(&table, report);
        kvsi_page_table(page, &table);
    }
    kvsi_page_heading(page, 2, "Runs");
    kvsi_table_of_runs(&table, report);
    kvsi_page_table(page, &table);
}

static void add_machine(kvsi_page *page, const kvsi_run_extras *extras)
{
    kvsi_text note = {0};

    if (!*extras->processor)
        return;
    kvsi_text_format(&note, "Processor: %s. Started: %s.", extras->processor, extras->started);
    kvsi_page_note(page, note.data ? note.data : "");
    page->text.failed |= note.failed;
    kvsi_text_release(&note);
}

static void add_command(kvsi_page *page, const kvsi_run *run)
{
    char note[160];

    snprintf(note, sizeof note, "kvshift %s, %zu thread%s, CPU level %s", run->version,
             run->threads, run->threads == 1 ? "" : "s",
             *run->cpu_level ? run->cpu_level : "unknown");
    kvsi_page_heading(page, 3, run->summary.name);
    kvsi_page_code(page, *run->command ? run->command : "not recorded");
    kvsi_page_note(page, note);
    add_machine(page, &run->extras);
}

/* The last texts that the models generated during training, the prompt in bold. */
static void add_samples(kvsi_page *page, const kvs_report *report)
{
    int begun = 0;

    for (size_t r = 0; r < report->run_count; r++) {
        const kvsi_run *run = report->runs + r;

        if (run->extras.sample_count == 0)
            continue;
        if (!begun)
            kvsi_page_heading(page, 2, "Samples");
        begun = 1;
        kvsi_page_heading(page, 3, run->summary.name);
        for (size_t i = 0; i < run->extras.sample_count; i++) {
            const kvsi_run_sample *sample = &run->extras.samples[i];
            char lead[48];

            snprintf(lead, sizeof lead, "Step %" PRIu64, sample->step);
            kvsi_page_sample(page, lead, sample->prompt, sample->text);
        }
    }
}

void kvsi_report_page(kvsi_page *page, const char *title, const kvs_report *report,
                      const kvsi_report_figures *figures)
{
    kvsi_table table;

    kvsi_page_begin(page, title);
    add_explanation(&page->text);
    add_remarks(&page->text, report);
    kvsi_page_figure(page, "curves", figures->curves,
                     report->is_text ? loss_caption : accuracy_caption);
    kvsi_page_heading(page, 2, "Results");
    if (report->is_text) {
        add_text_tables(page, report);
    } else {
        kvsi_table_of_tasks(&table, report);
        kvsi_page_table(page, &table);
        kvsi_page_note(page, accuracy_note);
    }
    if (figures->training || figures->costs)
        kvsi_page_heading(page, 2, "Training");
    if (figures->training)
        kvsi_page_figure(page, "training", figures->training, training_caption);
    if (figures->costs)
        kvsi_page_figure(page, "costs", figures->costs, costs_caption);
    add_samples(page, report);
    if (figures->benchmarks) {
        kvsi_page_heading(page, 2, "Benchmarks");
        kvsi_page_figure(page, "benchmarks", figures->benchmarks, benchmarks_caption);
        kvsi_table_of_benchmarks(&table, report);
        kvsi_page_table(page, &table);
    }
    kvsi_page_heading(page, 2, "Commands");
    for (size_t i = 0; i < report->run_count; i++)
        add_command(page, report->runs + i);
}
