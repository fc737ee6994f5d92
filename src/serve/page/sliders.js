// Other taps for heads: what they do to the log-probability of every token of a text.

import {ask, newest} from "./api.js";
import {changeColour, changeLegend, roundUp} from "./colours.js";
import {button, el, fixed, panel, percent, select, visible} from "./dom.js";
import {csvButton, svgButton} from "./files.js";
import {headGrid, kindOf, kvHeads, sum, sumName, tapName, targetsOf, targetWord} from "./heads.js";
import {choiceCard, tokenStrip} from "./tokens.js";

const ALTERNATIVES = 10;

const keyOf = (edit) => `${edit.layer}.${edit.target}.${edit.head}`;

/** Ready-made taps for a window, oldest first. */
const READY = {
    "Identity": (n) => Array.from({length: n}, (_, i) => i === n - 1 ? 1 : 0),
    "Previous": (n) => Array.from({length: n}, (_, i) => i === n - 2 ? 1 : 0),
    "Swap": (n, taps) => taps.toReversed(),
    "Average": (n, taps) => taps.map(() => sum(taps) / n),
    "Zero": (n) => Array(n).fill(0),
};

/** The changes that an address has, as far as they fit the model. */
function readEdits(list, shift) {
    const edits = new Map();

    for (const edit of Array.isArray(list) ? list : []) {
        const own = targetsOf(shift).includes(edit?.target)
            ? shift[edit.target][edit.layer]?.[edit.head] : null;

        if (own && Array.isArray(edit.taps) && edit.taps.length === own.length &&
            edit.taps.every(Number.isFinite))
            edits.set(keyOf(edit), {layer: edit.layer, target: edit.target, head: edit.head,
                taps: edit.taps});
    }
    return edits;
}

/** Whether a model has taps: a shift without gates. */
export function hasSliders(model) {
    return Boolean(model.shift.form && !model.shift.gates);
}

export function slidersView(page) {
    const models = page.about.models.filter(hasSliders);
    let model = models[0], edits = new Map(), past = [], future = [];
    let ids = [], texts = [], before = null, after = null, chosen = {layer: 0, head: 0};
    let started = false, moving = false, version = 0;
    const text = el("textarea", {"aria-label": "Text", id: "sliders-text", rows: 3});
    const gridPlace = el("div", {class: "scroll short"}), slidersPlace = el("div");
    const editList = el("ul", {class: "edits", "aria-label": "Changes"});
    const figures = el("div", {class: "figures"}), legendPlace = el("div");
    const title = el("span"), undo = button("Undo", () => step(past, future), {id: "undo"});
    const redo = button("Redo", () => step(future, past));
    const clear = button("Remove all", () => change(() => edits.clear()));
    const card = choiceCard(null);
    const strip = tokenStrip({label: "Tokens and their changes", empty: "Enter a text.",
        onenter: (i, span) => describe(i, span), onleave: () => card.hideSoon()});

    const run = newest((signal, list, top) => ask("/lens/run",
        {model: model.name, ids, top, ...(list.length ? {edits: list} : {})}, signal));
    const runChanged = newest((signal, list, top) => ask("/lens/run",
        {model: model.name, ids, top, edits: list}, signal));

    function tapsOf(target, layer, head) {
        return edits.get(keyOf({layer, target, head}))?.taps ?? model.shift[target][layer][head];
    }

    // ---- results

    function describe(i, span) {
        if (!before || i === 0)
            return;
        const mine = after || before;

        card.show(span, i, [visible({id: ids[i], text: texts[i]}), ` ${percent(before.logprobs[i])}`,
            after ? ` → ${percent(after.logprobs[i])}` : ""], mine.next?.[i - 1] || [], ids[i]);
    }

    function total(run) {
        return run.logprobs.reduce((a, b) => a + (b ?? 0), 0) / Math.max(1, ids.length - 1);
    }

    function drawResults() {
        if (!before) {
            strip.set([]);
            figures.replaceChildren();
            legendPlace.replaceChildren();
            return;
        }
        const changes = before.logprobs.map((b, i) =>
            b === null || !after ? 0 : after.logprobs[i] - b);
        const most = roundUp(changes.reduce((a, b) => Math.max(a, Math.abs(b)), 0));
        const figure = (name, value, id) => el("div", {}, el("b", {id}, value), el("span", {}, name));

        strip.set(texts.map((t, i) => ({id: ids[i], text: t,
            colour: changeColour(changes[i], most)})));
        legendPlace.replaceChildren(changeLegend("Change of the log-probability", most));
        figures.replaceChildren(
            figure("loss per token, model", fixed(-total(before), 4), "loss-before"),
            figure("with changes", after ? fixed(-total(after), 4) : "–", "loss-after"),
            figure("change", after ? fixed(total(before) - total(after), 4) : "–", "loss-change"),
            figure("tokens likelier", after ? String(changes.filter((c) => c > 1e-9).length) : "–"),
            figure("less likely", after ? String(changes.filter((c) => c < -1e-9).length) : "–"));
    }

    async function update() {
        if (ids.length === 0 || !before)
            return;
        const list = [...edits.values()], mine = ++version;
        // While a slider moves, alternatives would only cost time.
        const result = list.length > 0
            ? await runChanged(list, moving ? 0 : ALTERNATIVES) : null;

        if (result === undefined || mine !== version)
            return;
        after = result;
        drawResults();
    }

    // ---- changes, with undo

    function copyOf(map) {
        return new Map([...map].map(([key, edit]) => [key, {...edit, taps: [...edit.taps]}]));
    }

    function change(action) {
        past.push(copyOf(edits));
        future = [];
        action();
        applied();
    }

    function step(from, to) {
        if (from.length === 0)
            return;
        to.push(copyOf(edits));
        edits = from.pop();
        applied();
    }

    function applied() {
        drawHeads();
        drawSliders();
        drawEdits();
        remember();
        update().catch(page.report);
    }

    function setTaps(target, taps, {layer, head} = chosen) {
        const own = model.shift[target][layer][head], edit = {layer, target, head, taps};

        if (taps.every((tap, i) => tap === own[i]))
            edits.delete(keyOf(edit));
        else
            edits.set(keyOf(edit), edit);
    }

    function remember() {
        page.remember("sliders", {text: text.value, model: model.name, edits: [...edits.values()],
            ...chosen});
    }

    // ---- heads and sliders

    function changedHeads() {
        return kvHeads(model.shift).map((head) => {
            const now = {...head};

            for (const target of ["k", "v"])
                if (head[target])
                    now[target] = tapsOf(target, head.layer, head.head);
            now.kind = model.shift.kinds ? kindOf(now.k, now.v) : null;
            return now;
        });
    }

    function isEdited(head) {
        return ["k", "v"].some((target) =>
            edits.has(keyOf({layer: head.layer, target, head: head.head})));
    }

    function drawHeads() {
        gridPlace.replaceChildren(headGrid(model.shift, {heads: changedHeads(), selected: chosen,
            edited: isEdited, onpick: (head) => {
                chosen = {layer: head.layer, head: head.head};
                drawHeads();
                drawSliders();
                remember();
            }}));
    }

    function slider(target, i, count) {
        const {layer, head} = chosen, name = tapName(target, i, count);
        const value = () => tapsOf(target, layer, head)[i];
        const range = el("input", {type: "range", min: -1, max: 2, step: 0.01, value: value(),
            "aria-label": name, "data-tap": `${target}${i}`});
        const number = el("input", {type: "number", step: 0.01, value: Number(value().toFixed(4)),
            "aria-label": `${name} as a number`});
        let began = null;

        function put(tap) {
            const taps = [...tapsOf(target, layer, head)];

            taps[i] = tap;
            setTaps(target, taps, {layer, head});
        }

        range.addEventListener("input", () => {
            if (!began) {
                began = copyOf(edits);
                moving = true;
            }
            put(Number(range.value));
            number.value = range.value;
            drawHeads();
            update().catch(page.report);
        });
        range.addEventListener("change", () => {
            moving = false;
            if (began) {
                past.push(began);
                future = [];
            }
            began = null;
            drawEdits();
            remember();
            update().catch(page.report);
        });
        number.addEventListener("change", () => {
            const tap = Number(number.value);

            if (number.value !== "" && Number.isFinite(tap) && Math.abs(tap) <= 1e3)
                change(() => put(tap));
            else
                number.value = Number(value().toFixed(4));
        });
        return [el("label", {}, name), range, number];
    }

    function drawSliders() {
        const {layer, head} = chosen, shift = model.shift;
        const targets = targetsOf(shift).filter((t) => t !== "q");

        title.textContent = `Taps of layer ${layer}, head ${head}`;
        slidersPlace.replaceChildren(...targets.map((target) => {
            const count = shift[target][layer][head].length;
            const ready = Object.entries(READY).map(([name, make]) => button(name, () => change(() =>
                setTaps(target, make(count, [...tapsOf(target, layer, head)]))), {class: "small",
                title: `${name}: taps of ${targetWord(target)}`}));

            return el("div", {}, el("div", {class: "sliders"},
                ...[...Array(count).keys()].reverse().flatMap((i) => slider(target, i, count))),
            el("div", {class: "row"}, el("span", {class: "hint number"},
                `${sumName(target)} = ${fixed(sum(tapsOf(target, layer, head)))}`), ...ready,
            button("Model's", () => change(() => setTaps(target, shift[target][layer][head])),
                {class: "small"})));
        }),
        el("div", {class: "row"},
            button("Layer without shift", () => change(() => removeShift([layer]))),
            button("Model without shift", () => change(() => removeShift(shift[targets[0]].keys())),
                {id: "no-shift"})));
    }

    function removeShift(layers) {
        for (const layer of layers)
            for (const target of targetsOf(model.shift).filter((t) => t !== "q"))
                model.shift[target][layer].forEach((own, head) =>
                    setTaps(target, READY.Identity(own.length), {layer, head}));
    }

    function drawEdits() {
        undo.disabled = past.length === 0;
        redo.disabled = future.length === 0;
        clear.disabled = edits.size === 0;
        editList.replaceChildren(...[...edits.values()].map((edit) => {
            const own = model.shift[edit.target][edit.layer][edit.head], n = own.length;
            const words = [...own.keys()].reverse().filter((i) => own[i] !== edit.taps[i])
                .map((i) => `${tapName(edit.target, i, n)} ${fixed(own[i])} → ${fixed(edit.taps[i])}`);

            return el("li", {}, el("span", {},
                `layer ${edit.layer}, head ${edit.head}: ${words.join(", ")}`),
            button("Remove", () => change(() => edits.delete(keyOf(edit))), {class: "small"}));
        }));
    }

    function editRows() {
        return [["layer", "head", "tap", "model", "changed"],
            ...[...edits.values()].flatMap(({layer, head, target, taps}) =>
                [...taps.keys()].reverse().map((i) => [layer, head, tapName(target, i, taps.length),
                    model.shift[target][layer][head][i], taps[i]]))];
    }

    // ---- the text

    const readText = newest((signal) => ask("/lens/tokens", {model: model.name, text: text.value},
        signal));

    async function runText() {
        const room = Math.min(page.about.limits.tokens, model.context), tokens = await readText();

        if (!tokens)
            return;
        page.clear();
        page.text = text.value;
        ids = tokens.ids.slice(0, room);
        texts = tokens.texts.slice(0, room);
        before = after = null;
        remember();
        if (ids.length > 1)
            before = await run([], ALTERNATIVES) ?? null;
        drawResults();
        await update();
    }

    let timer = 0;
    text.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(() => runText().catch(page.report), 250);
    });

    function redraw() {
        drawHeads();
        drawSliders();
        drawEdits();
    }

    const chooseModel = models.length > 1 ? [el("label", {}, "Model", select("Model",
        models.map((m, i) => [String(i), m.name]), "0", (i) => {
            model = models[Number(i)];
            edits = new Map();
            past = [];
            future = [];
            chosen = {layer: 0, head: 0};
            redraw();
            runText().catch(page.report);
        }))] : [];
    const link = button("Copy link", async () => {
        remember();
        await navigator.clipboard.writeText(location.href);
        link.textContent = "Copied";
        setTimeout(() => {
            link.textContent = "Copy link";
        }, 1500);
    }, {title: "A link that restores the text and the changes"});

    return {node: el("div", {},
        panel("Text", chooseModel, text),
        panel("Tokens", [svgButton("changes", () => strip.drawing()),
            csvButton("changes", () => [["token", "id", "text", "log_probability",
                "log_probability_changed"], ...ids.map((id, i) => [i, id, texts[i],
                before?.logprobs[i], after?.logprobs[i]])])],
        figures, strip.node, legendPlace),
        el("div", {class: "columns"},
            panel("Heads", [svgButton("heads", () => gridPlace.querySelector("svg"))],
                el("p", {class: "hint"}, "Click a head to change its taps. Heads with other taps than ",
                    "the model's have a dashed frame."), gridPlace),
            el("div", {}, panel(title, [], slidersPlace),
                panel("Changes", [undo, redo, clear, link, csvButton("taps", editRows)], editList)))),
    show(state) {
        if (typeof state?.text === "string") {
            model = models.find((m) => m.name === state.model) || model;
            text.value = state.text;
            edits = readEdits(state.edits, model.shift);
            if (model.shift.k?.[state.layer]?.[state.head] ||
                model.shift.v?.[state.layer]?.[state.head])
                chosen = {layer: state.layer, head: state.head};
        } else if (started) {
            return undefined;
        }
        started = true;
        if (text.value === "")
            text.value = page.text || "the cat sat on the mat and the cat sat on the";
        redraw();
        return runText();
    },
    hide: () => card.hide()};
}
