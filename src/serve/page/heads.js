// Drawings and words for the shift of heads: names of taps, kinds, the grid of layers and heads.

import {drawing, fixed, svg} from "./dom.js";

const LETTERS = {k: "α", v: "β", q: "γ"};
const WORDS = {k: "keys", v: "values", q: "queries"};

/** The paper's four kinds, by which token weighs more in keys and in values. */
export const KINDS = {
    current_current: {sign: "α₁ > α₂, β₁ > β₂", text: "keys and values: current token"},
    previous_current: {sign: "α₁ ≤ α₂, β₁ > β₂", text: "keys: previous, values: current"},
    current_previous: {sign: "α₁ > α₂, β₁ ≤ β₂", text: "keys: current, values: previous"},
    previous_previous: {sign: "α₁ ≤ α₂, β₁ ≤ β₂", text: "keys and values: previous token"},
};

export function kindColour(kind) {
    return kind ? `var(--kind-${kind.replace("_", "-")})` : "var(--series-0)";
}

/** The kind that taps (oldest first) belong to; null unless both have two. */
export function kindOf(k, v) {
    if (k?.length !== 2 || v?.length !== 2)
        return null;
    return `${k[1] > k[0] ? "current" : "previous"}_${v[1] > v[0] ? "current" : "previous"}`;
}

export function targetsOf(shift) {
    return ["k", "v", "q"].filter((target) => shift[target]);
}

export function targetWord(target) {
    return WORDS[target];
}

/** "α₂": the name of tap `index` of `count`, which are in the order oldest first. */
export function tapName(target, index, count) {
    return LETTERS[target] + [...String(count - index)].map((d) => "₀₁₂₃₄₅₆₇₈₉"[d]).join("");
}

export function sumName(target) {
    return `Σ${LETTERS[target]}`;
}

export function sum(taps) {
    return taps.reduce((a, b) => a + b, 0);
}

/** Every KV head of a shift: {layer, head, kind, k, v}; a target that is not shifted is missing. */
export function kvHeads(shift) {
    const layers = shift.k || shift.v || [];

    return layers.flatMap((heads, layer) => heads.map((_, head) => ({layer, head,
        kind: shift.kinds?.[layer]?.[head] ?? null,
        ...(shift.k ? {k: shift.k[layer][head]} : {}),
        ...(shift.v ? {v: shift.v[layer][head]} : {})})));
}

/** One line about a head: "layer 0, head 1: α₁ 0.3, α₂ 0.7". */
export function describeHead(shift, head) {
    const values = ["k", "v", "q"].filter((target) => head[target] !== undefined)
        .map((target) => shift.gates ? `|w| of ${WORDS[target]} ${fixed(head[target])}`
            : [...head[target].keys()].reverse().map((i) =>
                `${tapName(target, i, head[target].length)} ${fixed(head[target][i])}`).join(", "));

    return `layer ${head.layer}, head ${head.head}: ${values.join("; ")}`;
}

/** The columns of a table of taps. */
export function headings(shift) {
    return ["layer", "head", ...targetsOf(shift).filter((t) => t !== "q").flatMap((target) =>
        shift.gates ? [`|w| ${target}`]
            : [...Array(shift.window + 1).keys()].reverse()
                .map((i) => tapName(target, i, shift.window + 1)).concat(sumName(target))),
    ...(shift.kinds ? ["kind"] : [])];
}

/** The row of a head; `number` prepares a number for it. */
export function rowOf(shift, head, number) {
    return [head.layer, head.head, ...["k", "v"].filter((t) => head[t] !== undefined)
        .flatMap((target) => shift.gates ? [number(head[target])]
            : head[target].toReversed().concat(sum(head[target])).map(number)),
    ...(shift.kinds ? [head.kind] : [])];
}

/** All taps of a shift as rows, for files. */
export function tapRows(shift) {
    return [headings(shift), ...kvHeads(shift).map((head) => rowOf(shift, head, (value) => value))];
}

const CELL = 46, GAP = 6, SIDE = 58, ROOF = 22;

/** Bars of a head's taps, the current token's first, from a line in the middle of the cell. */
function bars(head, most, x, y) {
    const values = ["k", "v", "q"].flatMap((target) => head[target] === undefined ? []
        : [].concat(head[target]).toReversed().map((value) => ({target, value})));
    const step = (CELL - 8) / values.length;

    return values.map(({target, value}, i) => {
        const height = Math.min(1, Math.abs(value) / most) * (CELL / 2 - 4);

        return svg("rect", {x: x + 4 + i * step + 1, width: Math.max(1, step - 2),
            y: value < 0 ? y + CELL / 2 : y + CELL / 2 - height, height: Math.max(0.5, height),
            style: {fill: kindColour(head.kind), opacity: target === "v" ? 0.55 : 1}});
    });
}

/** The grid of layers (rows) and heads (columns).  `onpick(head)` is called for a click or Enter,
 * `onpoint(head)` for the head under the pointer, null if there is none.  `edited(head)` heads have
 * a dashed frame. */
export function headGrid(shift, {heads = kvHeads(shift), selected = null, onpick, onpoint, edited}) {
    const rows = Math.max(0, ...heads.map((h) => h.layer)) + 1;
    const columns = Math.max(0, ...heads.map((h) => h.head)) + 1;
    const most = Math.max(1, ...heads.flatMap((h) => ["k", "v", "q"].flatMap((target) =>
        h[target] === undefined ? [] : [].concat(h[target]).map(Math.abs))));
    const node = drawing(SIDE + columns * (CELL + GAP), ROOF + rows * (CELL + GAP),
        "Taps of every head");

    for (let c = 0; c < columns; c++)
        node.append(svg("text", {x: SIDE + c * (CELL + GAP) + CELL / 2, y: 14,
            "text-anchor": "middle"}, String(c)));
    node.append(svg("text", {x: SIDE - 8, y: 14, "text-anchor": "end"}, "head"));
    for (let r = 0; r < rows; r++)
        node.append(svg("text", {x: SIDE - 8, y: ROOF + r * (CELL + GAP) + CELL / 2 + 4,
            "text-anchor": "end"}, `layer ${r}`));
    for (const head of heads) {
        const x = SIDE + head.head * (CELL + GAP), y = ROOF + head.layer * (CELL + GAP);
        const isSelected = selected && selected.layer === head.layer && selected.head === head.head;
        const label = describeHead(shift, head);

        node.append(svg("g", {class: `cell${isSelected ? " selected" : ""}`, tabindex: "0",
            role: "button", "aria-label": label, "data-head": `${head.layer}.${head.head}`,
            onclick: () => onpick?.(head),
            onkeydown: (event) => {
                if (event.key === "Enter" || event.key === " ") {
                    event.preventDefault();
                    onpick?.(head);
                }
            },
            onpointerenter: () => onpoint?.(head), onpointerleave: () => onpoint?.(null),
            onfocus: () => onpoint?.(head)},
        svg("title", {}, label),
        svg("rect", {class: "frame", x, y, width: CELL, height: CELL, rx: 5,
            "stroke-width": edited?.(head) ? 2 : 1,
            ...(edited?.(head) ? {"stroke-dasharray": "4 3"} : {}),
            stroke: kindColour(head.kind), "fill-opacity": 0.1, fill: kindColour(head.kind)}),
        svg("line", {class: "axis", x1: x + 4, x2: x + CELL - 4, y1: y + CELL / 2,
            y2: y + CELL / 2}),
        ...bars(head, most, x, y)));
    }
    return node;
}
