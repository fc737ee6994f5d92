/* Accuracy on a task against step, one curve per run. */
#include "report/curves.h"
#include "report/plot.h"

kvs_status kvsi_plot_accuracy(char **svg, const char *title, const kvsi_run *runs, size_t count,
                              kvs_err *err)
{
    kvsi_chart chart = {.name = "accuracy", .id = "accuracy"};
    kvsi_panel *panel = kvsi_panel_of_accuracy(&chart, title, "accuracy, mean of 20 batches");
    uint64_t longest = 2;
    kvs_status st;

    for (size_t i = 0; i < count; i++) {
        const uint64_t last = runs[i].points[runs[i].point_count - 1].step;

        longest = last > longest ? last : longest;
    }
    /* The first few batches mean little and would take a third of a logarithmic axis. */
    panel->x_low = longest >= 200 ? 9.8 : 0.98;
    panel->x_high = (double)longest;
    panel->decimal_x = 1;
    panel->y_high = 101;
    panel->y_step = 20;
    panel->key = "outside top left horizontal Left reverse samplen 2.5";
    for (size_t i = 0; i < count; i++)
        kvsi_curve_of_accuracy(&chart, i, runs[i].summary.name, &(const kvsi_run *const){runs + i},
                               1);
    st = kvsi_chart_draw(svg, &chart, err);
    kvsi_chart_release(&chart);
    return st;
}
