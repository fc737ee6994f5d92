/* What is learned of a task. */
#include "report/gnuplot.h"
#include "report/plot.h"

#include <inttypes.h>
#include <math.h>

/* On the logarithmic axis steps closer than one percent fall on each other, so few are needed. */
static void add_curve(kvsi_text *script, const kvsi_run *run, size_t number)
{
    uint64_t next = 0;

    kvsi_text_format(script, "$run%zu << END\n", number);
    for (size_t i = 0; i < run->point_count; i++) {
        const uint64_t step = run->points[i].step;
        const double accuracy = kvsi_run_recent_accuracy(run, i);

        if ((step < next && i + 1 < run->point_count) || isnan(accuracy))
            continue;
        kvsi_text_format(script, "%" PRIu64 " %.6g\n", step, 100 * accuracy);
        next = step + (step / 100 ? step / 100 : 1);
    }
    kvsi_text_add(script, "END\n");
}

static const char frame[] =
    "set terminal svg noenhanced size 900,460 name 'accuracy' font 'sans-serif,15' "
    "background '#ffffff'\n"
    "set xlabel 'training step'\n"
    "set ylabel 'accuracy, mean of 20 batches'\n"
    "set format y '%g %%'\n"
    "set yrange [0:101]\n"
    "set ytics 0,20,100\n"
    "set key outside top left horizontal Left reverse samplen 2.5\n";

/* Dashes help where colours do not. */
static void add_line(kvsi_text *script, size_t index)
{
    static const char *const dashes[] = {"1", "(12,4)", "(4,3)", "(14,4,3,4)"};

    kvsi_text_format(script, " with lines linewidth 2.6 linecolor rgb '#%s' dashtype %s title ",
                     kvsi_gnuplot_colour(index), dashes[index % 4]);
}

static uint64_t longest_run(const kvsi_run *runs, size_t count)
{
    uint64_t longest = 0;

    for (size_t i = 0; i < count; i++) {
        const uint64_t last = runs[i].points[runs[i].point_count - 1].step;

        longest = last > longest ? last : longest;
    }
    return longest;
}

/* Logarithmic, with 1, 2, 5, 10, 20, ... written at it. */
static void add_step_axis(kvsi_text *script, uint64_t first, uint64_t last)
{
    static const uint64_t digits[] = {1, 2, 5};

    kvsi_text_format(script, "set logscale x\nset xrange [%.2f:%" PRIu64 "]\nset xtics (",
                     0.98 * (double)first, last);
    for (uint64_t power = first; power <= last; power *= 10) {
        for (size_t i = 0; i < 3; i++)
            kvsi_text_format(script, "%s%" PRIu64, power * digits[i] == first ? "" : ", ",
                             power * digits[i]);
        if (power > UINT64_MAX / 100)
            break;
    }
    kvsi_text_add(script, ")\n");
}

static void write_script(kvsi_text *script, const kvsi_run *runs, size_t count)
{
    const uint64_t longest = longest_run(runs, count);

    kvsi_text_add(script, frame);
    kvsi_gnuplot_style(script);
    /* The first few batches say little and would take a third of a logarithmic axis. */
    add_step_axis(script, longest >= 200 ? 10 : 1, longest > 1 ? longest : 2);
    for (size_t i = 0; i < count; i++)
        add_curve(script, runs + i, i);
    kvsi_text_add(script, "plot ");
    for (size_t i = 0; i < count; i++) {
        kvsi_text_format(script, "%s$run%zu", i ? ", " : "", i);
        add_line(script, i);
        kvsi_gnuplot_quote(script, runs[i].summary.name);
    }
    kvsi_text_add(script, "\n");
}

kvs_status kvsi_plot_accuracy(char **svg, const kvsi_run *runs, size_t count, kvs_err *err)
{
    kvsi_text script = {0};
    kvs_status st;

    write_script(&script, runs, count);
    st = kvsi_gnuplot_draw(svg, &script, err);
    kvsi_text_release(&script);
    return st;
}
