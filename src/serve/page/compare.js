// Two models side by side: the log-probabilities of the same text, and the taps of both.

import {ask, newest} from "./api.js";
import {changeColour, changeLegend, probabilityColour, probabilityLegend, roundUp}
    from "./colours.js";
import {el, fixed, panel, percent, visible} from "./dom.js";
import {csvButton, svgButton} from "./files.js";
import {headGrid, tapRows} from "./heads.js";
import {choiceCard, tokenStrip} from "./tokens.js";

const ALTERNATIVES = 10;

export function compareView(page) {
    const models = page.about.models.slice(0, 2);
    const sameTokens = models[0].tokenizer === models[1].tokenizer;
    const text = el("textarea", {"aria-label": "Text", id: "compare-text", rows: 3});
    const card = choiceCard(null);
    const sides = models.map((model) => ({model, ids: [], texts: [], run: null}));
    const figures = el("div", {class: "figures"}), legendPlace = el("div");
    let started = false;

    function describe(side, i, span) {
        if (side.run && i > 0)
            card.show(span, i, [side.model.name, `: ${visible({id: side.ids[i],
                text: side.texts[i]})} ${percent(side.run.logprobs[i])}`],
            side.run.next[i - 1] || [], side.ids[i]);
    }

    const strips = sides.map((side) => tokenStrip({label: `Tokens of ${side.model.name}`,
        onenter: (i, span) => describe(side, i, span), onleave: () => card.hideSoon()}));
    const changes = tokenStrip({label: "Change from the first model to the second",
        onenter: (i, span) => describe(sides[1], i, span), onleave: () => card.hideSoon()});

    const read = newest((signal) => Promise.all(sides.map(async ({model}) => {
        const tokens = await ask("/lens/tokens", {model: model.name, text: text.value}, signal);
        const room = Math.min(page.about.limits.tokens, ...models.map((m) => m.context));
        const ids = tokens.ids.slice(0, room), texts = tokens.texts.slice(0, room);
        const run = ids.length > 0 ? await ask("/lens/run",
            {model: model.name, ids, top: ALTERNATIVES}, signal) : null;

        return {ids, texts, run};
    })));

    function differences() {
        return sides[0].run.logprobs.map((a, i) => a === null ? 0 : sides[1].run.logprobs[i] - a);
    }

    function draw() {
        sides.forEach((side, s) => strips[s].set(side.texts.map((t, i) => ({id: side.ids[i],
            text: t, colour: probabilityColour(side.run?.logprobs[i])}))));
        if (!sides.every((side) => side.run))
            return;
        figures.replaceChildren(...sides.map((side) => el("div", {},
            el("b", {}, fixed(-side.run.logprobs.reduce((a, b) => a + (b ?? 0), 0) /
                Math.max(1, side.ids.length - 1), 4)),
            el("span", {}, `loss per token, ${side.model.name}`))));
        if (!sameTokens)
            return;
        const list = differences();
        const most = roundUp(list.reduce((a, b) => Math.max(a, Math.abs(b)), 0));

        changes.set(sides[0].texts.map((t, i) => ({id: sides[0].ids[i], text: t,
            colour: changeColour(list[i], most)})));
        legendPlace.replaceChildren(changeLegend(
            `Log-probability of ${models[1].name} minus that of ${models[0].name}`, most));
    }

    async function run() {
        const results = await read();

        if (!results)
            return;
        page.clear();
        page.text = text.value;
        page.remember("compare", {text: text.value});
        sides.forEach((side, s) => Object.assign(side, results[s]));
        draw();
    }

    let timer = 0;
    text.addEventListener("input", () => {
        clearTimeout(timer);
        timer = setTimeout(() => run().catch(page.report), 250);
    });

    const grids = models.map((model) => model.shift.form
        ? headGrid(model.shift, {}) : null);

    return {node: el("div", {},
        panel("Text", [], text, figures),
        sameTokens ? panel("Difference", [svgButton("difference", () => changes.drawing()),
            csvButton("difference", () => [["token", "id", "text", ...models.map((m) => m.name)],
                ...sides[0].ids.map((id, i) => [i, id, sides[0].texts[i],
                    ...sides.map((side) => side.run?.logprobs[i])])])],
        changes.node, legendPlace)
            : panel("Difference", [], el("p", {class: "hint"},
                "The models have different tokenizers, so their tokens cannot be compared.")),
        el("div", {class: "columns"}, ...models.map((model, s) => panel(model.name,
            [svgButton("tokens", () => strips[s].drawing()),
                csvButton("tokens", () => [["token", "id", "text", "log_probability"],
                    ...sides[s].ids.map((id, i) => [i, id, sides[s].texts[i],
                        sides[s].run?.logprobs[i]])])], strips[s].node, probabilityLegend()))),
        el("div", {class: "columns"}, ...models.map((model, s) => panel(`Taps of ${model.name}`,
            grids[s] ? [svgButton("shift-map", () => grids[s]),
                csvButton("shift-map", () => tapRows(model.shift))] : [],
            grids[s] ? el("div", {class: "scroll"}, grids[s])
                : el("p", {class: "hint"}, "Keys and values of this model are not shifted."))))),
    show(state) {
        if (typeof state?.text === "string")
            text.value = state.text;
        else if (started)
            return undefined;
        started = true;
        if (text.value === "")
            text.value = page.text || "the cat sat on the mat and the cat sat on the";
        return run();
    },
    hide: () => card.hide()};
}
