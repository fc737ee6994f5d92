// A chart of lines: axes, a legend, and the values under the pointer.

import {drawing, el, show, svg} from "./dom.js";

const WIDTH = 440, HEIGHT = 230, LEFT = 58, RIGHT = 10, TOP = 8, BOTTOM = 28;
const POINTS = 400; // drawn per line

export function seriesColour(i) {
    return `var(--series-${i % 8})`;
}

/** About `count` round numbers between two limits. */
function ticks(low, high, count) {
    const step = (high - low) / count, power = 10 ** Math.floor(Math.log10(step));
    const round = [1, 2, 5, 10].map((digit) => digit * power).find((s) => s >= step);
    const found = [];

    for (let value = Math.ceil(low / round) * round; value <= high + round * 1e-9; value += round)
        found.push(Math.abs(value) < round * 1e-9 ? 0 : value);
    return found;
}

function logTicks(low, high) {
    const found = [];

    for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++)
        for (const digit of high / low > 100 ? [1] : [1, 2, 5])
            found.push(digit * 10 ** e);
    return found.filter((value) => value >= low * 0.999 && value <= high * 1.001);
}

function axis(low, high, from, to, isLog) {
    const f = isLog ? Math.log : (value) => value;
    const span = f(high) - f(low) || 1;

    return {at: (value) => from + (f(value) - f(low)) / span * (to - from),
        ticks: isLog ? logTicks(low, high) : ticks(low, high, 5)};
}

/** At most 2 POINTS of a line: the least and the greatest value of every part of it. */
function thin(points) {
    if (points.length <= 2 * POINTS)
        return points;
    const kept = [];

    for (let i = 0; i < POINTS; i++) {
        const part = points.slice(Math.floor(i * points.length / POINTS),
            Math.floor((i + 1) * points.length / POINTS));
        const least = part.reduce((a, b) => b[1] < a[1] ? b : a);
        const most = part.reduce((a, b) => b[1] > a[1] ? b : a);

        kept.push(...(least === most ? [least] : least[0] < most[0] ? [least, most]
            : [most, least]));
    }
    return kept;
}

/** Lines {name, colour, points: [[x, y], ...], dots}; x ascends.  Returns the drawing. */
export function lineChart({label, xLabel = "step", lines, logX = false, logY = false}) {
    const usable = lines.map((line) => ({...line, points: line.points.filter(([x, y]) =>
        Number.isFinite(y) && (!logX || x > 0) && (!logY || y > 0))}));
    const all = usable.flatMap((line) => line.points);

    if (all.length === 0)
        return drawing(WIDTH, 60, label, svg("text", {x: 8, y: 34}, `${label}: no values yet`));

    let [x0, x1, y0, y1] = [Infinity, -Infinity, Infinity, -Infinity];
    for (const [x, y] of all) {
        x0 = Math.min(x0, x);
        x1 = Math.max(x1, x);
        y0 = Math.min(y0, y);
        y1 = Math.max(y1, y);
    }
    if (y0 === y1) {
        y0 = logY ? y0 / 2 : y0 - 0.5;
        y1 = logY ? y1 * 2 : y1 + 0.5;
    } else if (!logY) {
        const margin = 0.05 * (y1 - y0);

        y0 -= margin;
        y1 += margin;
    }
    const x = axis(x0, x1, LEFT, WIDTH - RIGHT, logX), y = axis(y0, y1, HEIGHT - BOTTOM, TOP, logY);
    const cursor = svg("line", {class: "axis", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden"});
    const readout = svg("text", {class: "strong", x: LEFT + 6, y: TOP + 12});
    const node = drawing(WIDTH, HEIGHT, label,
        ...y.ticks.map((value) => svg("line", {class: "gridline", x1: LEFT, x2: WIDTH - RIGHT,
            y1: y.at(value), y2: y.at(value)})),
        ...y.ticks.map((value) => svg("text", {x: LEFT - 6, y: y.at(value) + 4,
            "text-anchor": "end"}, show(value))),
        ...x.ticks.map((value) => svg("text", {x: x.at(value), y: HEIGHT - 10,
            "text-anchor": "middle"}, show(value))),
        svg("text", {x: LEFT - 20, y: HEIGHT - 10, "text-anchor": "end"}, xLabel),
        svg("line", {class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: HEIGHT - BOTTOM,
            y2: HEIGHT - BOTTOM}),
        ...usable.flatMap((line) => {
            const points = thin(line.points).map(([a, b]) => [x.at(a), y.at(b)]);

            return [svg("polyline", {fill: "none", "stroke-width": 1.5,
                points: points.map(([a, b]) => `${a.toFixed(1)},${b.toFixed(1)}`).join(" "),
                style: {stroke: line.colour}}),
            ...(line.dots || points.length === 1 ? points.map(([a, b]) => svg("circle",
                {cx: a.toFixed(1), cy: b.toFixed(1), r: 2.5, style: {fill: line.colour}})) : [])];
        }), cursor, readout);

    node.addEventListener("pointermove", (event) => {
        const box = node.getBoundingClientRect();
        const at = (event.clientX - box.left) / box.width * WIDTH;
        const near = all.reduce((a, b) =>
            Math.abs(x.at(b[0]) - at) < Math.abs(x.at(a[0]) - at) ? b : a);
        const values = usable.map((line) => line.points.filter((p) => p[0] === near[0]).at(-1)?.[1])
            .map((value) => value === undefined ? "" : show(value));

        cursor.setAttribute("x1", x.at(near[0]));
        cursor.setAttribute("x2", x.at(near[0]));
        cursor.setAttribute("visibility", "visible");
        readout.textContent = `${xLabel} ${near[0]}: ${values.filter(Boolean).join(", ")}`;
    });
    node.addEventListener("pointerleave", () => {
        cursor.setAttribute("visibility", "hidden");
        readout.textContent = "";
    });
    return node;
}

export function lineLegend(lines) {
    return el("div", {class: "legend"}, ...lines.map((line) => el("span", {},
        el("span", {class: "swatch", style: {background: line.colour}}), line.name)));
}
