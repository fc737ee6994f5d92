// A text as its tokens, each with a colour, and the card that shows alternatives of a token.

import {el, percent, svg, visible} from "./dom.js";

/** A list of tokens {id, text, colour, given}.  `onenter(i)` is called when the pointer or the
 * keyboard reaches a token, `onleave()` when they leave, `onpick(i, node)` for a click or Enter. */
export function tokenStrip({empty = "", label = "Tokens", onenter, onleave, onpick}) {
    const node = el("div", {class: "tokens", role: "group", "aria-label": label,
        "data-empty": empty});
    let shown = [];

    function spanOf(i) {
        return node.children[i];
    }

    function indexOf(target) {
        const span = target.closest?.(".token");

        return span ? Number(span.dataset.index) : -1;
    }

    function draw(span, token, i) {
        // A line break is shown by a sign, and breaks the line after it.
        const parts = token.text === "" ? [el("span", {class: "sign"}, visible(token))]
            : token.text.split(/(\n)/).flatMap((part) => part === "\n"
                ? [el("span", {class: "sign"}, "⏎"), "\n"] : [part]);

        span.replaceChildren(...parts);
        span.className = `token${onpick ? " active" : ""}${token.given ? " given" : ""}`;
        span.style.background = token.colour || "";
        span.dataset.index = i;
        span.tabIndex = onenter || onpick ? (i === 0 ? 0 : -1) : -1;
    }

    function move(from, by) {
        const span = spanOf(Math.min(shown.length - 1, Math.max(0, from + by)));

        span?.focus();
    }

    node.addEventListener("pointerover", (event) => {
        const i = indexOf(event.target);

        if (i >= 0)
            onenter?.(i, spanOf(i));
    });
    node.addEventListener("pointerleave", () => onleave?.());
    node.addEventListener("focusin", (event) => {
        const i = indexOf(event.target);

        if (i >= 0)
            onenter?.(i, spanOf(i));
    });
    node.addEventListener("click", (event) => {
        const i = indexOf(event.target);

        if (i >= 0)
            onpick?.(i, spanOf(i));
    });
    node.addEventListener("keydown", (event) => {
        const i = indexOf(event.target);

        if (i < 0)
            return;
        if (event.key === "ArrowRight" || event.key === "ArrowDown")
            move(i, 1);
        else if (event.key === "ArrowLeft" || event.key === "ArrowUp")
            move(i, -1);
        else if (event.key === "Enter" || event.key === " ")
            onpick?.(i, spanOf(i));
        else
            return;
        event.preventDefault();
    });

    return {
        node,
        set(tokens) {
            while (node.children.length > tokens.length)
                node.lastChild.remove();
            while (node.children.length < tokens.length)
                node.append(el("span"));
            shown = tokens;
            tokens.forEach((token, i) => draw(spanOf(i), token, i));
        },
        add(token) {
            shown = [...shown, token];
            node.append(el("span"));
            draw(node.lastChild, token, shown.length - 1);
        },
        mark(i) {
            for (const span of node.querySelectorAll(".marked"))
                span.classList.remove("marked");
            spanOf(i)?.classList.add("marked");
        },
        /** The tokens as a drawing, for files. */
        drawing: () => tokenDrawing(shown, node),
    };
}

function tokenDrawing(tokens, node) {
    const width = 100, unit = 8.4, height = 24, parts = [];
    let column = 0, line = 0;

    tokens.forEach((token, i) => {
        const text = visible(token), length = [...text].length;

        if (column + length > width) {
            column = 0;
            line++;
        }
        const x = column * unit, y = line * height;
        const fill = getComputedStyle(node.children[i]).backgroundColor;

        parts.push(svg("rect", {x, y, width: length * unit, height: height - 4, rx: 2,
            style: {fill}}));
        parts.push(svg("text", {x, y: y + 15, textLength: length * unit,
            style: {font: "14px monospace", fill: "var(--text)"}}, text));
        column += length;
        if (token.text.endsWith("\n")) {
            column = 0;
            line++;
        }
    });
    return svg("svg", {class: "chart", viewBox: `0 0 ${width * unit} ${(line + 1) * height}`},
        ...parts);
}

/** The card beside a token.  `onchoose(i, choice)` is called with the index of the token and the
 * alternative that was clicked.  It stays open, once a token was clicked, until Escape. */
export function choiceCard(onchoose) {
    const node = el("div", {class: "card", role: "dialog", "aria-label": "Alternatives",
        hidden: true});
    const self = {node, locked: false};
    let timer = 0, owner = null;

    function place(anchor) {
        const box = anchor.getClientRects()[0] || anchor.getBoundingClientRect();
        const width = node.offsetWidth, height = node.offsetHeight;
        const below = box.bottom + 4 + height < innerHeight || box.top < height + 8;

        node.style.left = `${Math.max(8, Math.min(box.left, innerWidth - width - 8)) + scrollX}px`;
        node.style.top = `${(below ? box.bottom + 4 : box.top - height - 4) + scrollY}px`;
    }

    /** `about` is a list of nodes or texts, `choices` are {id, text, logprob}. */
    self.show = (anchor, i, about, choices, current) => {
        clearTimeout(timer);
        owner = anchor;
        node.replaceChildren(el("div", {class: "about"}, ...about), ...choices.map((choice) => {
            const bar = el("span", {class: "bar",
                style: {width: `${(100 * Math.exp(choice.logprob)).toFixed(2)}%`}});

            return el("button", {type: "button", class: "choice", disabled: !onchoose,
                "aria-current": choice.id === current ? "true" : null,
                onclick: () => {
                    self.hide();
                    onchoose(i, choice);
                }}, bar, el("span", {class: "text"}, visible(choice)),
            el("span", {class: "value"}, percent(choice.logprob)));
        }));
        if (!node.isConnected)
            document.body.append(node);
        node.hidden = false;
        place(anchor);
    };
    self.lock = () => {
        self.locked = true;
        node.querySelector("button")?.focus({preventScroll: true});
    };
    self.hide = () => {
        clearTimeout(timer);
        self.locked = false;
        node.hidden = true;
    };
    self.hideSoon = () => {
        clearTimeout(timer);
        if (!self.locked)
            timer = setTimeout(self.hide, 250);
    };
    node.addEventListener("pointerenter", () => clearTimeout(timer));
    node.addEventListener("pointerleave", () => self.hideSoon());
    node.addEventListener("keydown", (event) => {
        const buttons = [...node.querySelectorAll("button")];
        const at = buttons.indexOf(document.activeElement);

        if (event.key === "ArrowDown" || event.key === "ArrowUp") {
            buttons[(at + (event.key === "ArrowDown" ? 1 : -1) + buttons.length) % buttons.length]
                ?.focus();
            event.preventDefault();
        }
    });
    document.addEventListener("keydown", (event) => {
        if (event.key === "Escape" && !node.hidden) {
            if (node.contains(document.activeElement))
                owner?.focus(); // which shows the card again
            self.hide();
        }
    });
    document.addEventListener("pointerdown", (event) => {
        if (!node.hidden && !node.contains(event.target) && !event.target.closest?.(".token"))
            self.hide();
    });
    return self;
}
