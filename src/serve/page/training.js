// Runs of training, finished or running: their curves and samples, read from their logs.

import {ask} from "./api.js";
import {lineChart, lineLegend, seriesColour} from "./chart.js";
import {el, panel, select} from "./dom.js";
import {csvButton, svgButton} from "./files.js";

const PAUSE = 2000; // milliseconds between two looks at the logs
const SAMPLES = 20; // shown

/** The charts: fields of the records of train.jsonl. */
const CHARTS = [
    {label: "Loss", fields: ["loss", "eval_loss"], log: true},
    {label: "Accuracy", fields: ["accuracy", "eval_accuracy"]},
    {label: "Sums of taps", fields: ["k_shift_sum", "v_shift_sum", "q_shift_sum"]},
    {label: "Tap of the current token", fields: ["k_shift_current", "v_shift_current",
        "q_shift_current"]},
    {label: "Learning rate", fields: ["lr"]},
    {label: "Gradient norm", fields: ["grad_norm"], log: true},
    {label: "Tokens per second", fields: ["tokens_per_second"]},
];

const NAMES = {loss: "loss", eval_loss: "evaluation", accuracy: "accuracy",
    eval_accuracy: "evaluation", k_shift_sum: "Σα", v_shift_sum: "Σβ", q_shift_sum: "Σγ",
    k_shift_current: "α₁", v_shift_current: "β₁", q_shift_current: "γ₁", lr: "lr",
    grad_norm: "norm", tokens_per_second: "tokens/s"};

/** A file of a run that grows.  `lines` are its objects with a step; a step that comes again, after
 * a resume, replaces what followed. */
function follower(run, file) {
    const self = {lines: [], first: null};
    let next = 0, last = "";

    function add(text) {
        for (const line of text.split("\n").filter(Boolean)) {
            let record;

            try {
                record = JSON.parse(line);
            } catch {
                continue; // a damaged line
            }
            if (record === null || typeof record !== "object")
                continue;
            if (!Number.isFinite(record.step)) {
                self.first ??= record;
                continue;
            }
            while (self.lines.length > 0 && self.lines.at(-1).step >= record.step &&
                   !(file === "samples" && self.lines.at(-1).step === record.step))
                self.lines.pop();
            if (record.tokens > 0 && record.seconds > 0)
                record.tokens_per_second = record.tokens / record.seconds;
            self.lines.push(record);
        }
    }

    function restart() {
        next = 0;
        last = "";
        self.lines = [];
        self.first = null;
    }

    /** Reads what is new; returns whether anything is.  The last line is read again: if it is
     * another one now, the log was cut by a resume, and everything is read anew. */
    self.read = async () => {
        const encoder = new TextEncoder();
        let isNew = false;

        for (;;) {
            const back = encoder.encode(last).length;
            const part = await ask("/lens/log", {run, file, offset: next - back});

            if (part.size < next || !part.text.startsWith(last)) {
                restart();
                isNew = true;
                if (part.size === 0)
                    return isNew;
                continue;
            }
            const text = part.text.slice(last.length);

            if (text === "")
                return isNew;
            isNew = true;
            add(text);
            last = `${text.trimEnd().split("\n").at(-1)}\n`;
            next = part.next;
        }
    };
    return self;
}

export function trainingView(page) {
    const followers = new Map(); // of runs that are shown: {log, samples}
    const chosen = new Set();
    const list = el("div", {class: "row", id: "runs"}), charts = el("div", {class: "columns"});
    const samples = el("div");
    const samplesPanel = panel("Samples", [csvButton("samples", () => [["run", "step", "prompt", "text"],
        ...samplesOf().map((s) => [nameOf(s.run), s.step, s.prompt, s.text])])], samples);
    let names = [], scale = "linear", timer = 0, shown = false;
    const scaleChoice = select("Scale of steps", [["linear", "steps: linear"],
        ["log", "steps: logarithmic"]], scale, (value) => {
        scale = value;
        draw();
    });

    function nameOf(run) {
        return run === "." ? "this run" : run;
    }

    function linesOf(chart) {
        return names.flatMap((run, r) => chosen.has(run) && followers.has(run)
            ? chart.fields.map((field, f) => ({
                name: (chosen.size > 1 ? `${nameOf(run)}: ` : "") + NAMES[field],
                colour: seriesColour(chosen.size > 1 ? r * 2 + f : f),
                dots: field.startsWith("eval"),
                points: followers.get(run).log.lines
                    .filter((record) => Number.isFinite(record[field]))
                    .map((record) => [record.step, record[field]]),
            })).filter((line) => line.points.length > 0) : []);
    }

    function drawCharts() {
        const panels = CHARTS.map((chart) => ({chart, lines: linesOf(chart)}))
            .filter(({lines}) => lines.length > 0).map(({chart, lines}) => {
                const svg = lineChart({label: chart.label, lines, logX: scale === "log",
                    logY: Boolean(chart.log)});
                const file = chart.label.toLowerCase().replaceAll(" ", "-");

                return panel(chart.label + (chart.log ? ", logarithmic" : ""), [svgButton(file, () => svg),
                    csvButton(file, () => [["line", "step", "value"],
                        ...lines.flatMap((line) => line.points.map(([x, y]) =>
                            [line.name, x, y]))])], svg, lineLegend(lines));
            });

        charts.replaceChildren(...panels);
    }

    /** The samples of the runs that are shown, the newest first. */
    function samplesOf() {
        return names.flatMap((run) => chosen.has(run) && followers.has(run)
            ? followers.get(run).samples.lines.map((sample) => ({...sample, run})) : [])
            .sort((a, b) => b.step - a.step);
    }

    function drawSamples() {
        const all = samplesOf();

        samplesPanel.hidden = all.length === 0;
        samples.replaceChildren(...all.slice(0, SAMPLES)
            .map((sample) => el("div", {class: "sample"},
                el("span", {class: "muted"},
                    `${chosen.size > 1 ? `${nameOf(sample.run)}, ` : ""}step ${sample.step}: `),
                el("strong", {}, String(sample.prompt ?? "")), String(sample.text ?? ""))));
    }

    function draw() {
        drawCharts();
        drawSamples();
    }

    function drawRuns() {
        list.replaceChildren(...names.map((run) => el("label", {}, el("input", {type: "checkbox",
            checked: chosen.has(run), onchange: (event) => {
                if (event.target.checked)
                    chosen.add(run);
                else
                    chosen.delete(run);
                draw();
                look().catch(page.report);
            }}), nameOf(run))),
        ...(names.length === 0 ? [el("span", {class: "hint"}, "There are no runs yet.")] : []));
    }

    /** Reads the list of runs and what is new in those that are shown. */
    async function look() {
        const {runs} = await ask("/lens/runs");
        let isNew = false;

        if (runs.join("\n") !== names.join("\n")) {
            if (names.length === 0)
                runs.slice(0, 4).forEach((run) => chosen.add(run));
            names = runs;
            drawRuns();
        } else if (names.length === 0) {
            drawRuns();
        }
        for (const run of names.filter((name) => chosen.has(name))) {
            if (!followers.has(run))
                followers.set(run, {log: follower(run, "log"), samples: follower(run, "samples")});
            for (const file of Object.values(followers.get(run)))
                isNew = await file.read() || isNew;
        }
        if (isNew)
            draw();
    }

    async function watch() {
        try {
            await look();
        } catch (error) {
            page.report(error);
        }
        if (shown)
            timer = setTimeout(watch, PAUSE);
    }

    samplesPanel.hidden = true;
    return {node: el("div", {}, panel("Runs", [scaleChoice], list), charts, samplesPanel),
        show() {
            shown = true;
            clearTimeout(timer);
            return watch();
        },
        hide() {
            shown = false;
            clearTimeout(timer);
        }};
}
