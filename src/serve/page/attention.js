// Attention of a text: the weights of positions A, of the tokens whose values are read A_V, and their
// difference, for one head; and the scores of all heads.

import {ask, askFloats, newest} from "./api.js";
import {changeColour, signedLegend, signedScale} from "./colours.js";
import {button, drawing, el, fixed, panel, segments, select, show, svg, table, visible}
    from "./dom.js";
import {csvButton, svgButton} from "./files.js";
import {tokenStrip} from "./tokens.js";

const SCORES = [["induction", "Induction"], ["duplicate", "Duplicate"], ["previous", "Previous"]];
const SQUARES = [
    {name: "A", about: "A: by position"},
    {name: "A_V", about: "A_V: by the token whose value is read"},
    {name: "difference", about: "A_V − A"},
];

/** The grid of layers and query heads, coloured by a score. */
function scoreGrid(heads, valueOf, selected, onpick) {
    const cell = 34, side = 58, roof = 20, gap = 8;
    const rows = Math.max(...heads.map((h) => h.layer)) + 1;
    const columns = Math.max(...heads.map((h) => h.head)) + 1;
    const groups = Math.max(...heads.map((h) => h.kv_head)) + 1;
    const node = drawing(side + columns * (cell + 3) + groups * gap, roof + rows * (cell + 3), "Scores of heads");

    for (let c = 0; c < columns; c++) {
        const group = heads.find((h) => h.head === c).kv_head;

        node.append(svg("text", {x: side + c * (cell + 3) + group * gap + cell / 2, y: 12,
            "text-anchor": "middle"}, String(c)));
    }
    node.append(svg("text", {x: side - 8, y: 12, "text-anchor": "end"}, "head"));
    for (let r = 0; r < rows; r++)
        node.append(svg("text", {x: side - 8, y: roof + r * (cell + 3) + cell / 2 + 4,
            "text-anchor": "end"}, `layer ${r}`));
    for (const head of heads) {
        const x = side + head.head * (cell + 3) + head.kv_head * gap, y = roof + head.layer * (cell + 3);
        const value = valueOf(head);
        const isSelected = selected.layer === head.layer && selected.head === head.head;
        const label = `layer ${head.layer}, head ${head.head} (KV head ${head.kv_head}): ` +
            fixed(value);

        node.append(svg("g", {class: `cell${isSelected ? " selected" : ""}`, tabindex: "0",
            role: "button", "aria-label": label, "data-head": `${head.layer}.${head.head}`,
            onclick: () => onpick(head),
            onkeydown: (event) => {
                if (event.key === "Enter" || event.key === " ") {
                    event.preventDefault();
                    onpick(head);
                }
            }},
        svg("title", {}, label),
        svg("rect", {class: "frame", x, y, width: cell, height: cell, rx: 4,
            stroke: "var(--line)", style: {fill: changeColour(value, 1) || "var(--panel)"}}),
        svg("text", {x: x + cell / 2, y: y + cell / 2 + 4, "text-anchor": "middle"},
            value === null ? "–" : value.toFixed(2).replace(/^(-?)0/, "$1").replace("-", "−"))));
    }
    return node;
}

/** The pairs [query, key] of tokens that a score is about. */
function pairsOf(score, ids) {
    const last = new Map(), pairs = [];

    ids.forEach((id, t) => {
        const earlier = last.get(id);

        if (score === "previous" && t > 0)
            pairs.push([t, t - 1]);
        else if (score !== "previous" && earlier !== undefined)
            pairs.push([t, score === "induction" ? earlier + 1 : earlier]);
        last.set(id, t);
    });
    return pairs;
}

/** The scores of a head as rows. */
function scoresTable(head) {
    return [["score", "A", "A_V"], ...(head ? SCORES.map(([key, name]) =>
        [name, head.by_place[key], head.by_content[key]]) : [])];
}

/** Draws a square of weights with some pairs marked. */
function paint(canvas, values, count, most, marked) {
    const small = el("canvas", {width: count, height: count}), scale = signedScale(most);
    const pixels = small.getContext("2d"), image = pixels.createImageData(count, count);
    const unit = Math.max(1, Math.floor(480 / count)), context = canvas.getContext("2d");

    for (let i = 0; i < count * count; i++) {
        image.data.set(scale(values[i]), 4 * i);
        image.data[4 * i + 3] = 255;
    }
    pixels.putImageData(image, 0, 0);
    canvas.width = canvas.height = count * unit;
    canvas.dataset.tokens = count;
    context.imageSmoothingEnabled = false;
    context.drawImage(small, 0, 0, canvas.width, canvas.height);
    // The drawing is mostly shown smaller than it is, where thin lines need smoothing.
    canvas.style.imageRendering = unit > 1 ? "auto" : "pixelated";
    context.strokeStyle = getComputedStyle(canvas).color;
    context.lineWidth = 2;
    for (const [query, key] of unit > 4 ? marked : [])
        context.strokeRect(key * unit + 1, query * unit + 1, unit - 2, unit - 2);
}

export function attentionView(page) {
    const models = page.about.models, most = page.about.limits.square;
    let model = models[0], ids = [], texts = [], heads = [], repeated = 0;
    let chosen = {layer: 0, head: 0}, squares = null, limit = 1, locked = -1, started = false, seed = 0;
    const text = el("textarea", {"aria-label": "Text", id: "attention-text", rows: 2});
    const gridPlace = el("div", {class: "scroll short"}), about = el("p", {class: "hint"});
    const scoresPlace = el("div");
    const title = el("span");
    const readout = el("p", {class: "hint number", id: "attention-readout"});
    const canvases = SQUARES.map(({about: label}) => el("canvas", {role: "img", tabindex: "0",
        "aria-label": label, width: 1, height: 1}));
    const legendPlace = el("div");
    const marks = el("input", {type: "checkbox", onchange: drawSquares});
    const by = segments("Score", SCORES, "induction", () => {
        drawGrid();
        drawSquares();
    });
    const side = segments("Weights", [["by_place", "A"], ["by_content", "A_V"]], "by_content",
        drawGrid);
    const strip = tokenStrip({label: "Tokens of the text",
        empty: "Enter a text.",
        onenter: (i) => {
            if (locked < 0)
                showRow(i);
        },
        onpick: (i) => lock(i)});
    const weights = segments("Weights of the row", [["0", "A"], ["1", "A_V"], ["2", "difference"]],
        "1", () => showRow(row));
    let row = -1;

    const readScores = newest((signal) => ask("/lens/scores", {model: model.name, ids}, signal));
    const readSquares = newest((signal) => askFloats("/lens/attention",
        {model: model.name, ids, layer: chosen.layer, head: chosen.head}, signal));

    function drawGrid() {
        if (heads.length === 0)
            return;
        gridPlace.replaceChildren(scoreGrid(heads, (head) => head[side.value][by.value], chosen,
            (head) => pick(head).catch(page.report)));
    }

    function headNow() {
        return heads.find((h) => h.layer === chosen.layer && h.head === chosen.head);
    }

    function drawScores() {
        const head = headNow();

        title.textContent = `Layer ${chosen.layer}, head ${chosen.head}` +
            (head ? ` (KV head ${head.kv_head})` : "");
        const [headings, ...rows] = scoresTable(head);

        scoresPlace.replaceChildren(...(head ? [table(headings, rows.map(([name, ...values]) =>
            [name, ...values.map((value) => fixed(value))]))] : []));
    }

    function drawSquares() {
        if (!squares)
            return;
        canvases.forEach((canvas, i) => paint(canvas, squares[i], ids.length, limit,
            marks.checked ? pairsOf(by.value, ids) : []));
        legendPlace.replaceChildren(signedLegend("Weight", limit));
        showRow(row);
    }

    /** Colours the tokens by the weights of one query token. */
    function showRow(i, column = -1) {
        const count = ids.length;

        row = i;
        if (!squares || i < 0 || i >= count) {
            strip.set(texts.map((t, j) => ({id: ids[j], text: t})));
            readout.textContent = "Point at a token or at a square to see what the token attends " +
                "to; click to keep it, Escape lets go.";
            return;
        }
        const values = squares[Number(weights.value)].subarray(i * count, (i + 1) * count);

        strip.set(texts.map((t, j) => ({id: ids[j], text: t, given: j > i,
            colour: changeColour(values[j], Math.max(limit / 2, 1e-9))})));
        strip.mark(i);
        const token = (j) => `${j} ${visible({id: ids[j], text: texts[j]})}`;
        const best = [...values.keys()].slice(0, i + 1)
            .sort((a, b) => Math.abs(values[b]) - Math.abs(values[a])).slice(0, 3);

        readout.textContent = column >= 0
            ? `From token ${token(i)} to ${token(column)}: A ` +
                `${show(squares[0][i * count + column])}, A_V ${show(squares[1][i * count + column])}`
            : `Token ${token(i)}: most to ${best.map((j) =>
                `${token(j)} (${fixed(values[j])})`).join(", ")}`;
    }

    function lock(i) {
        locked = locked === i ? -1 : i;
        showRow(i);
    }

    canvases.forEach((canvas) => {
        const at = (event) => {
            const box = canvas.getBoundingClientRect(), count = ids.length;
            const clamp = (share) => Math.min(count - 1, Math.max(0, Math.floor(share * count)));

            return [clamp((event.clientY - box.top) / box.height),
                clamp((event.clientX - box.left) / box.width)];
        };

        canvas.addEventListener("pointermove", (event) => {
            const [query, key] = at(event);

            if (squares && locked < 0)
                showRow(query, Math.min(key, query));
            else if (squares && key <= locked)
                showRow(locked, key);
        });
        canvas.addEventListener("click", (event) => squares && lock(at(event)[0]));
        canvas.addEventListener("keydown", (event) => {
            const by = {ArrowDown: 1, ArrowUp: -1}[event.key];

            if (by && ids.length > 0) {
                event.preventDefault();
                locked = Math.min(ids.length - 1, Math.max(0, Math.max(row, 0) + by));
                showRow(locked);
            }
        });
    });
    document.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && locked >= 0) {
            locked = -1;
            showRow(-1);
        }
    });

    async function pick(head) {
        chosen = {layer: head.layer, head: head.head};
        drawGrid();
        drawScores();
        remember();
        const floats = await readSquares(), size = ids.length ** 2;

        if (!floats || floats.length !== 2 * size)
            return;
        const [places, contents] = [floats.subarray(0, size), floats.subarray(size)];

        squares = [places, contents, contents.map((value, i) => value - places[i])];
        limit = floats.reduce((a, b) => Math.max(a, Math.abs(b)), 1e-6);
        drawSquares();
    }

    function remember() {
        page.remember("attention", {text: text.value, ...chosen});
    }

    /** Runs the tokens that were entered. */
    async function run(newIds, newTexts, cut) {
        page.clear();
        ids = newIds;
        texts = newTexts;
        squares = null;
        locked = row = -1;
        showRow(-1);
        if (ids.length === 0)
            return;
        const scores = await readScores();

        if (!scores)
            return;
        ({heads, repeated} = scores);
        about.textContent = (repeated > 0
            ? `${repeated} of ${ids.length} tokens were there before. `
            : "No token occurs twice, so there are no induction and duplicate scores. ") +
            (cut ? `Only the first ${ids.length} tokens are shown.` : "");
        if (!heads.some((h) => h.layer === chosen.layer && h.head === chosen.head))
            chosen = {layer: 0, head: 0};
        await pick(chosen);
    }

    const readText = newest((signal) => ask("/lens/tokens", {model: model.name, text: text.value},
        signal));

    async function runText() {
        const tokens = await readText(), room = Math.min(most, model.context);

        if (tokens) {
            page.text = text.value;
            remember();
            await run(tokens.ids.slice(0, room), tokens.texts.slice(0, room),
                tokens.ids.length > room);
        }
    }

    async function runRepeated() {
        const {ids: random} = await ask("/lens/repeated",
            {model: model.name, length: 24, seed: ++seed});
        const tokens = await ask("/lens/tokens", {model: model.name, ids: random});

        await run(tokens.ids, tokens.texts, false);
    }

    let timer = 0;
    text.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(() => runText().catch(page.report), 250);
    });
    document.addEventListener("theme", drawSquares);

    const chooseModel = models.length > 1 ? [el("label", {}, "Model", select("Model",
        models.map((m, i) => [String(i), m.name]), "0", (i) => {
            model = models[Number(i)];
            heads = [];
            runText().catch(page.report);
        }))] : [];

    function squareDrawing() {
        const size = 300;

        return svg("svg", {class: "chart", viewBox: `0 0 ${3 * size + 40} ${size + 24}`},
            ...SQUARES.flatMap(({about: label}, i) => [
                svg("text", {x: i * (size + 20), y: 14, class: "strong"}, label),
                svg("image", {x: i * (size + 20), y: 22, width: size, height: size,
                    href: canvases[i].toDataURL("image/png")})]));
    }

    return {node: el("div", {},
        panel("Text", chooseModel, text, el("div", {class: "row"},
            button("Repeat random tokens", () => runRepeated().catch(page.report),
                {id: "repeat-random"}), about)),
        el("div", {class: "columns"}, panel("Heads by score", [by.node, side.node,
            svgButton("scores", () => gridPlace.querySelector("svg")),
            csvButton("scores", () => [["layer", "head", "kv_head", ...["A", "A_V"].flatMap((w) =>
                SCORES.map(([key]) => `${key}_${w}`))], ...heads.map((h) => [h.layer, h.head,
                h.kv_head, ...[h.by_place, h.by_content].flatMap((s) =>
                    SCORES.map(([key]) => s[key]))])])],
        el("p", {class: "hint"}, "The share of a token's attention that goes to the token after its ",
            "last earlier occurrence (induction), to that occurrence (duplicate), and to the token ",
            "before (previous). Query heads that share a KV head stand together. Click a head to ",
            "see its weights."), gridPlace), panel("Scores of this head",
            [csvButton("scores-of-head", () => scoresTable(headNow()))], scoresPlace)),
        panel(title, [el("label", {}, marks, "Mark the pairs of the score"), weights.node,
            svgButton("attention", squareDrawing),
            csvButton("attention", () => [["query", "key", ...SQUARES.map(({name}) => name)],
                ...(squares ? ids.flatMap((_, q) => [...Array(q + 1).keys()].map((k) => [q, k,
                    ...squares.map((square) => square[q * ids.length + k])])) : [])])],
        strip.node, readout,
        el("div", {class: "squares"}, ...canvases.map((canvas, i) => el("figure", {},
            el("figcaption", {}, SQUARES[i].about), canvas))),
        legendPlace, el("p", {class: "hint"}, "Rows are the tokens that attend, columns those that ",
            "are attended to. Rows of A sum to 1, rows of A_V to the sum of the head's β."))),
    show(state) {
        if (typeof state?.text === "string") {
            text.value = state.text;
            if (Number.isInteger(state.layer) && Number.isInteger(state.head))
                chosen = {layer: state.layer, head: state.head};
        } else if (started) {
            return undefined;
        }
        started = true;
        if (text.value === "")
            text.value = page.text || "the cat sat on the mat and the cat sat on the";
        return runText();
    }};
}
