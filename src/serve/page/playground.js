// Completion and chat.  A text is a list of tokens: those that were given, and those that the model
// chose.  Alternatives come from /lens/run, which computes every token of the text at once; to
// branch, the tokens before are kept, the alternative is appended, and the model goes on.

import {ask, newest, stream} from "./api.js";
import {probabilityColour, probabilityLegend} from "./colours.js";
import {button, el, panel, percent, segments, visible} from "./dom.js";
import {csvButton, svgButton} from "./files.js";
import {choiceCard, tokenStrip} from "./tokens.js";

const ALTERNATIVES = 10;

function numberField(label, value, properties) {
    const input = el("input", {type: "number", value, ...properties});

    return {node: el("label", {}, label, input), input};
}

/** A text with its tokens: shows them, generates, and branches. */
function tokenText(page, {onchange, settings, stop}) {
    const model = page.about.models[0];
    const most = Math.min(model.context, page.about.limits.tokens);
    const readAlternatives = newest((signal, ids) =>
        ask("/lens/run", {ids: ids.slice(0, most), top: ALTERNATIVES}, signal));
    const card = choiceCard((i, choice) => self.branch(i, choice));
    const self = {tokens: [], branches: [], running: null};
    let next = null; // alternatives after each token
    let pointed = null; // the token that the card is about: its index and its element

    const strip = tokenStrip({
        empty: "Nothing is generated yet.", label: "Generated tokens",
        onenter: (i, span) => {
            if (!card.locked)
                describe(i, span);
        },
        onleave: () => card.hideSoon(),
        onpick: (i, span) => {
            describe(i, span);
            if (!card.node.hidden)
                card.lock();
        },
    });

    function describe(i, span) {
        const token = self.tokens[i], choices = i > 0 && next ? next[i - 1] : null;

        if (!token || self.running)
            return;
        pointed = [i, span];
        card.show(span, i, [`${visible(token)}  `,
            i === 0 ? "the first token has no probability" : percent(token.logprob),
            choices ? "" : i > 0 ? " · alternatives are being computed" : ""],
        choices || [], token.id);
    }

    function draw() {
        strip.set(self.tokens.map((token) => ({...token,
            colour: probabilityColour(token.logprob)})));
        onchange();
    }

    async function lookUp() {
        const ids = self.tokens.map((token) => token.id);

        next = null;
        if (ids.length === 0)
            return;
        const run = await readAlternatives(ids);
        if (!run || self.tokens.length !== ids.length)
            return;
        next = run.next;
        self.tokens = self.tokens.map((token, i) => ({...token,
            logprob: i < run.logprobs.length ? run.logprobs[i] : token.logprob}));
        draw();
        if (!card.node.hidden) { // it waits for the alternatives
            describe(...pointed);
            if (card.locked)
                card.lock();
        }
    }

    /** Lets the model go on after the tokens that are there. */
    self.generate = async () => {
        const controller = new AbortController();
        const ids = self.tokens.map((token) => token.id);
        const {temperature, topP, most: wanted} = settings();

        card.hide();
        self.running = controller;
        onchange();
        try {
            const events = stream("/v1/completions", {model: model.name, prompt: ids,
                max_tokens: wanted, temperature, top_p: topP, stream: true, logprobs: 1,
                return_token_ids: true, ...(stop ? {stop: [stop]} : {})}, controller.signal);

            for await (const event of events) {
                const choice = event.choices?.[0];

                (choice?.token_ids || []).forEach((id, i, all) => {
                    const token = {id, text: i === all.length - 1 ? choice.text : "",
                        logprob: choice.logprobs?.token_logprobs?.[i] ?? null};

                    self.tokens.push(token);
                    strip.add({...token, colour: probabilityColour(token.logprob)});
                });
            }
        } catch (error) {
            page.report(error);
        }
        self.running = null;
        await self.renew();
    };

    /** Looks up the texts of all tokens, which may end within characters while they stream, and
     * their alternatives. */
    self.renew = async () => {
        if (self.tokens.length > 0) {
            const {texts} = await ask("/lens/tokens",
                {ids: self.tokens.slice(0, most).map((token) => token.id)});

            self.tokens = self.tokens.map((token, i) => ({...token,
                text: texts[i] ?? token.text}));
        }
        draw();
        await lookUp();
    };

    /** Starts anew with given tokens. */
    self.start = (ids, texts) => {
        self.tokens = ids.map((id, i) => ({id, text: texts[i], logprob: null, given: true}));
        next = null;
        draw();
    };

    self.branch = async (i, choice) => {
        self.branches.push({tokens: self.tokens, at: i});
        self.tokens = [...self.tokens.slice(0, i),
            {id: choice.id, text: choice.text, logprob: choice.logprob}];
        draw();
        await self.generate();
    };

    /** Exchanges the text with the one before the last branch. */
    self.back = async () => {
        self.tokens = self.branches.pop().tokens;
        draw();
        await lookUp();
    };

    self.stop = () => self.running?.abort();
    self.hide = () => card.hide();
    self.redraw = draw;
    self.strip = strip;
    self.rows = () => [["token", "id", "text", "log_probability", "given"],
        ...self.tokens.map((t, i) => [i, t.id, t.text, t.logprob, t.given ? 1 : 0])];
    return self;
}

export function playgroundView(page) {
    const model = page.about.models[0];
    const temperature = numberField("Temperature", 0.8, {min: 0, max: 2, step: 0.1});
    const topP = numberField("Top-p", 1, {min: 0.05, max: 1, step: 0.05});
    const most = numberField("Tokens", 64, {min: 1, max: model.context, step: 1});
    const limit = (field, otherwise) => {
        const {value, min, max} = field.input, number = Number(value);

        return value === "" || !Number.isFinite(number) ? otherwise
            : Math.min(Number(max), Math.max(Number(min), number));
    };
    const settings = () => ({temperature: limit(temperature, 0.8), topP: limit(topP, 1),
        most: Math.round(limit(most, 64))});
    const body = el("div");
    const parts = {completion: completion(), ...(model.chat ? {chat: chat()} : {})};
    let mode = "completion";
    const modes = segments("Mode", [["completion", "Completion"], ["chat", "Chat"]], mode,
        (value) => {
            mode = value;
            body.replaceChildren(parts[mode].node);
        });

    function completion() {
        const prompt = el("textarea", {"aria-label": "Prompt", id: "prompt", rows: 4,
            placeholder: "The model continues this text."});
        const text = tokenText(page, {settings, onchange});
        const go = button("Generate", () => generate().catch(page.report),
            {class: "main", id: "generate"});
        const more = button("Continue", () => text.generate().catch(page.report));
        const stop = button("Stop", () => text.stop(), {id: "stop"});
        const back = button("Back", () => text.back().catch(page.report),
            {title: "To the text before the last branch"});

        function onchange() {
            if (!text)
                return;
            go.disabled = Boolean(text.running);
            more.disabled = Boolean(text.running) || text.tokens.length === 0 ||
                text.tokens.length >= model.context;
            stop.disabled = !text.running;
            back.disabled = Boolean(text.running) || text.branches.length === 0;
        }

        async function generate() {
            page.clear();
            const {ids, texts} = await ask("/lens/tokens", {text: prompt.value});

            page.text = prompt.value;
            page.remember("playground", {text: prompt.value});
            if (ids.length === 0)
                throw new Error("The prompt has no tokens.");
            text.branches = [];
            text.start(ids, texts);
            await text.generate();
        }

        prompt.addEventListener("keydown", (event) => {
            if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !go.disabled)
                go.click();
        });
        setTimeout(onchange);
        return {text, prompt, node: el("div", {},
            panel("Prompt", [], prompt, el("div", {class: "row"}, go, stop,
                el("span", {class: "hint"}, "Ctrl+Enter generates"))),
            panel("Text", [more, back, svgButton("tokens", () => text.strip.drawing()),
                csvButton("tokens", () => text.rows())], text.strip.node, probabilityLegend(),
            el("p", {class: "hint"}, "Point at a token, or move to it with the arrow keys, to see ",
                "ten alternatives. Click one to continue with it instead.")))};
    }

    function chat() {
        const messages = []; // {role, content, text: the tokens of an answer}
        const list = el("div");
        const entry = el("textarea", {"aria-label": "Message", id: "message", rows: 2,
            placeholder: "A message to the model"});
        const send = button("Send", () => say().catch(page.report), {class: "main"});
        const stop = button("Stop", () => messages.at(-1)?.text?.stop());
        const clear = button("New chat", () => {
            messages.splice(0);
            draw();
        });

        function draw() {
            const running = Boolean(messages.at(-1)?.text?.running);

            send.disabled = running;
            stop.disabled = !running;
            clear.disabled = running || messages.length === 0;
            list.replaceChildren(...messages.map((message) => el("div",
                {class: `message ${message.role}`}, el("div", {class: "role"}, message.role),
                message.text ? message.text.strip.node
                    : el("div", {class: "said"}, message.content))));
        }

        /** The text of an answer, without the tokens of the prompt and the end of the message. */
        function contentOf(message) {
            const all = message.text.tokens.slice(message.promptCount).map((t) => t.text).join("");

            return model.stop && all.endsWith(model.stop) ? all.slice(0, -model.stop.length) : all;
        }

        async function say() {
            if (entry.value.trim() === "")
                return;
            page.clear();
            messages.push({role: "user", content: entry.value});
            entry.value = "";
            const {ids, texts} = await ask("/lens/tokens",
                {messages: messages.map(({role, content}) => ({role, content}))});
            const answer = {role: "assistant", content: "", promptCount: ids.length};

            answer.text = tokenText(page, {settings, stop: model.stop, onchange: () => {
                if (!answer.text)
                    return;
                if (answer.text.running) // a branch of an earlier answer replaces what follows it
                    messages.splice(messages.indexOf(answer) + 1);
                answer.content = contentOf(answer);
                draw();
            }});
            messages.push(answer);
            answer.text.start(ids, texts);
            hidePrompt(answer);
            await answer.text.generate();
        }

        // Tokens of the prompt stay in the list, because branches need them, but are not shown.
        function hidePrompt(answer) {
            answer.text.strip.node.classList.add("answer");
        }

        entry.addEventListener("keydown", (event) => {
            if (event.key === "Enter" && !event.shiftKey && !send.disabled) {
                event.preventDefault();
                send.click();
            }
        });
        draw();
        return {node: panel("Chat", [clear,
            csvButton("chat", () => [["role", "content"],
                ...messages.map((m) => [m.role, m.content])]),
            svgButton("answer", () => (messages.at(-1)?.text || parts.completion.text)
                .strip.drawing())],
        list, entry, el("div", {class: "row"}, send, stop,
            el("span", {class: "hint"}, "Enter sends, Shift+Enter starts a new line")),
        probabilityLegend())};
    }

    const node = el("div", {}, el("div", {class: "panel row"}, model.chat ? modes.node : null,
        temperature.node, topP.node, most.node), body);

    body.append(parts[mode].node);
    document.addEventListener("theme", () => parts.completion.text.redraw());
    return {node,
        show(state) {
            if (typeof state?.text === "string")
                parts.completion.prompt.value = state.text;
        },
        hide: () => parts.completion.text.hide()};
}
