// Elements and texts.  Texts of models only ever become text nodes: nothing here parses markup.

const SVG = "http://www.w3.org/2000/svg";

function fill(node, properties, children) {
    for (const [name, value] of Object.entries(properties)) {
        if (name.startsWith("on"))
            node.addEventListener(name.slice(2), value);
        else if (name === "style")
            Object.assign(node.style, value);
        else if (value === true)
            node.setAttribute(name, "");
        else if (value !== false && value !== null && value !== undefined)
            node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
}

/** Makes an element: el("p", {class: "hint", onclick: f}, "text", child). */
export function el(tag, properties = {}, ...children) {
    return fill(document.createElement(tag), properties, children);
}

/** The same for a part of a drawing. */
export function svg(tag, properties = {}, ...children) {
    return fill(document.createElementNS(SVG, tag), properties, children);
}

/** A drawing with these inner sizes, which fills the width that it gets. */
export function drawing(width, height, label, ...children) {
    return svg("svg", {class: "chart", viewBox: `0 0 ${width} ${height}`, role: "img",
        "aria-label": label, style: {maxWidth: `${width}px`}}, ...children);
}

/** A panel with a heading and, beside it, buttons. */
export function panel(title, tools, ...children) {
    return el("section", {class: "panel"}, el("header", {}, el("h2", {}, title), ...tools),
        ...children);
}

export function button(text, onclick, properties = {}) {
    return el("button", {type: "button", onclick, ...properties}, text);
}

/** Buttons of which one is chosen.  `choices` are [value, text]; returns {node, value, set}. */
export function segments(label, choices, initial, onchange) {
    const self = {value: initial};
    const buttons = choices.map(([value, text]) => button(text, () => {
        if (self.value !== value) {
            self.set(value);
            onchange(value);
        }
    }));

    self.node = el("div", {class: "segments", role: "group", "aria-label": label}, ...buttons);
    self.set = (value) => {
        self.value = value;
        buttons.forEach((b, i) => b.setAttribute("aria-pressed", choices[i][0] === value));
    };
    self.set(initial);
    return self;
}

export function select(label, choices, initial, onchange) {
    const node = el("select", {"aria-label": label, onchange: () => onchange(node.value)},
        ...choices.map(([value, text]) => el("option", {value}, text)));

    node.value = initial;
    return node;
}

/** A table of texts and numbers; the first column is on the left. */
export function table(headings, rows) {
    return el("div", {class: "table", tabindex: "0"}, el("table", {},
        el("thead", {}, el("tr", {}, ...headings.map((text) => el("th", {scope: "col"}, text)))),
        el("tbody", {}, ...rows.map((row) => el("tr", {},
            ...row.map((value) => el("td", {}, String(value))))))));
}

/** A number for people: 4 significant digits, "–" for what is missing. */
export function show(value, digits = 4) {
    if (value === null || value === undefined || !Number.isFinite(value))
        return "–";
    if (value !== 0 && (Math.abs(value) < 1e-3 || Math.abs(value) >= 1e6))
        return value.toExponential(2).replace("-", "−");
    return String(Number(value.toPrecision(digits))).replace("-", "−");
}

/** With a fixed number of digits behind the point. */
export function fixed(value, digits = 3) {
    return Number.isFinite(value) && value !== null ? value.toFixed(digits).replace("-", "−") : "–";
}

/** The probability of a log-probability, in percent. */
export function percent(logprob) {
    const p = 100 * Math.exp(logprob);

    return logprob === null ? "–" : p >= 10 ? `${p.toFixed(1)} %` : p >= 0.01 ? `${p.toFixed(2)} %`
        : "< 0.01 %";
}

/** A token's text with its white space made visible; a token without text is shown by its id. */
export function visible(token) {
    return token.text === "" ? `‹${token.id}›`
        : token.text.replace(/\n/g, "⏎").replace(/\t/g, "⇥").replace(/ /g, "·");
}
