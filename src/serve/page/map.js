// The shift map: the taps of every head, their kinds, and how they changed in training.

import {ask} from "./api.js";
import {lineChart, lineLegend} from "./chart.js";
import {button, drawing, el, fixed, panel, select, svg, table} from "./dom.js";
import {csvButton, svgButton} from "./files.js";
import {describeHead, headGrid, headings, kindColour, KINDS, kvHeads, rowOf, sum, sumName, tapRows}
    from "./heads.js";

/** Where a head lies between 0 = only the current token and 1 = only the previous one: the share of
 * the previous token if no tap is negative, and always on the side of the greater tap. */
function previousShare(taps) {
    const size = Math.abs(taps[0]) + Math.abs(taps[1]);

    return size > 0 ? 0.5 + (taps[0] - taps[1]) / (2 * size) : 0.5;
}

/** The square of kinds: each head is a point, its size is the size of its sums. */
function square(heads, selected, onpoint) {
    const size = 330, from = 44, to = size - 14, span = to - from, top = 14;
    const at = (share) => from + share * span;
    const node = drawing(size, top + span + 40, "Kinds of heads");
    const half = span / 2;

    for (const [kind, column, row] of [["current_current", 0, 1], ["previous_current", 1, 1],
        ["current_previous", 0, 0], ["previous_previous", 1, 0]]) {
        node.append(svg("rect", {x: from + column * half, y: top + row * half, width: half,
            height: half, style: {fill: kindColour(kind)}, "fill-opacity": 0.1}));
    }
    const bottom = top + span;
    const y = (share) => bottom - share * span;

    node.append(svg("rect", {class: "axis", x: from, y: top, width: span, height: span}));
    for (const share of [0, 0.5, 1]) {
        node.append(svg("text", {x: at(share), y: bottom + 16, "text-anchor": "middle"},
            String(share)));
        node.append(svg("text", {x: from - 6, y: y(share) + 4, "text-anchor": "end"},
            String(share)));
    }
    node.append(svg("text", {x: from + half, y: bottom + 32, "text-anchor": "middle"},
        "share of the previous token in keys (α₂)"));
    node.append(svg("text", {x: 12, y: top + half, "text-anchor": "middle",
        transform: `rotate(-90 12 ${top + half})`}, "share in values (β₂)"));
    for (const head of heads) {
        const sums = (Math.abs(sum(head.k)) + Math.abs(sum(head.v))) / 2;
        const isSelected = selected && selected.layer === head.layer && selected.head === head.head;

        node.append(svg("circle", {cx: at(previousShare(head.k)), cy: y(previousShare(head.v)),
            r: Math.min(14, 3 + 4 * Math.sqrt(sums)), "fill-opacity": 0.75,
            stroke: isSelected ? "var(--text)" : "var(--panel)",
            style: {fill: kindColour(head.kind)},
            onpointerenter: () => onpoint(head), onpointerleave: () => onpoint(null)},
        svg("title", {}, `layer ${head.layer}, head ${head.head}`)));
    }
    return node;
}

/** The kinds with their numbers of heads, which is the paper's table. */
function kindLegend(heads) {
    return el("div", {class: "legend"}, ...Object.entries(KINDS).map(([kind, about]) =>
        el("span", {}, el("span", {class: "swatch", style: {background: kindColour(kind)}}),
            el("b", {"data-kind": kind}, String(heads.filter((h) => h.kind === kind).length)),
            ` ${about.sign} (${about.text})`)));
}

/** The curves of the sums over the steps of checkpoints. */
function sumLines(checkpoints) {
    return ["k", "v"].filter((target) => checkpoints[0].shift[target]).map((target, i) => ({
        name: `${sumName(target)}, mean of all heads`, colour: `var(--series-${i})`, dots: true,
        points: checkpoints.map(({step, shift}) => {
            const all = shift[target].flat();

            return [step, all.reduce((s, taps) => s + sum(taps), 0) / all.length];
        })}));
}

export function mapView(page) {
    const shifted = page.about.models.filter((model) => model.shift.form);
    let model = shifted[0], checkpoints = [], at = -1, selected = null, timer = 0;
    const about = el("p", {class: "hint", id: "map-about"});
    const gridPlace = el("div", {class: "scroll"}), squarePlace = el("div");
    const tablePlace = el("div"), trainingPlace = el("div");
    const squarePanel = panel("Kinds of heads", [svgButton("kinds",
        () => squarePlace.querySelector("svg"))], squarePlace);

    function shift() {
        return at >= 0 ? checkpoints[at].shift : model.shift;
    }

    function point(head) {
        about.textContent = head || selected ? describeHead(shift(), head || selected)
            : "Point at a head to see its numbers.";
    }

    function pick(head) {
        selected = selected?.layer === head.layer && selected.head === head.head ? null : head;
        draw();
    }

    function draw() {
        const now = shift(), heads = kvHeads(now);

        if (selected)
            selected = heads.find((h) => h.layer === selected.layer && h.head === selected.head);
        gridPlace.replaceChildren(headGrid(now, {selected, onpick: pick, onpoint: point}));
        squarePanel.hidden = !now.kinds;
        squarePlace.replaceChildren(...(now.kinds ? [square(heads, selected, point), kindLegend(heads)] : []));
        tablePlace.replaceChildren(table(headings(now), heads.map((head) =>
            rowOf(now, head, (value) => fixed(value, 4)))));
        point(null);
    }

    /** The slider over the checkpoints of the run that the model is from. */
    function drawTraining() {
        clearInterval(timer);
        if (checkpoints.length < 2) {
            trainingPlace.replaceChildren();
            return;
        }
        const slider = el("input", {type: "range", min: 0, max: checkpoints.length, step: 1,
            value: checkpoints.length, id: "checkpoint", "aria-label": "Checkpoint",
            style: {flex: "1"}, oninput: () => go(Number(slider.value))});
        const step = el("span", {class: "number"}, "the model itself");
        const play = button("Play", () => {
            let i = 0;

            clearInterval(timer);
            timer = setInterval(() => {
                go(i);
                if (i++ === checkpoints.length)
                    clearInterval(timer);
            }, 400);
        });

        function go(i) {
            slider.value = i;
            at = i < checkpoints.length ? i : -1;
            step.textContent = at < 0 ? "the model itself" : `step ${checkpoints[at].step}`;
            draw();
        }

        const curves = model.shift.gates ? null : sumLines(checkpoints);
        const chart = curves && lineChart({label: "Sums of taps", lines: curves});

        trainingPlace.replaceChildren(panel("Over training", [
            ...(chart ? [svgButton("taps-over-training", () => chart)] : []),
            csvButton("taps-over-training", () => [["step", ...headings(model.shift)],
                ...checkpoints.flatMap((c) => kvHeads(c.shift).map((head) =>
                    [c.step, ...rowOf(c.shift, head, (value) => value)]))])],
        el("div", {class: "row"}, play, slider, step), chart,
        curves ? lineLegend(curves) : null));
    }

    async function load() {
        at = -1;
        selected = null;
        draw();
        ({checkpoints} = await ask("/lens/checkpoints", {model: model.name}));
        drawTraining();
    }

    const choose = shifted.length > 1 ? [el("label", {}, "Model", select("Model",
        shifted.map((m, i) => [String(i), m.name]), "0", (i) => {
            model = shifted[Number(i)];
            load().catch(page.report);
        }))] : [];
    let loaded = false;

    return {node: el("div", {},
        el("div", {class: "columns"}, panel("Taps of every head", [...choose,
            svgButton("shift-map", () => gridPlace.querySelector("svg")),
            csvButton("shift-map", () => tapRows(shift()))],
        el("p", {class: "hint"}, "Rows are layers, columns are KV heads. The bars are the ",
            shifted[0].shift.gates ? "lengths of the gates of keys and, lighter, of values."
                : "taps of keys (α) and, lighter, of values (β), for the current token first."),
        about, gridPlace), squarePanel),
        trainingPlace, panel("Numbers", [csvButton("shift-map", () => tapRows(shift()))],
            tablePlace)),
    show: () => {
        if (!loaded) {
            loaded = true;
            return load();
        }
        return undefined;
    },
    hide: () => clearInterval(timer)};
}
