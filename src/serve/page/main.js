// Starts the page: the models, the tabs, the state in the address.

import {ask, Failure, setKey} from "./api.js";
import {applyTheme} from "./colours.js";
import {button, el, select} from "./dom.js";
import {attentionView} from "./attention.js";
import {compareView} from "./compare.js";
import {mapView} from "./map.js";
import {playgroundView} from "./playground.js";
import {hasSliders, slidersView} from "./sliders.js";
import {trainingView} from "./training.js";

const VIEWS = [
    {name: "playground", title: "Playground", make: playgroundView, wanted: () => true},
    {name: "map", title: "Shift map", make: mapView, wanted: hasShift},
    {name: "attention", title: "Attention", make: attentionView, wanted: () => true},
    {name: "sliders", title: "Sliders", make: slidersView, 
        wanted: (about) => about.models.some(hasSliders)},
    {name: "compare", title: "Two models", make: compareView,
        wanted: (about) => about.models.length > 1},
    {name: "training", title: "Training", make: trainingView, wanted: (about) => about.runs},
];

const main = document.getElementById("main");
const notice = document.getElementById("notice");

function hasShift(about) {
    return about.models.some((model) => model.shift.form);
}

/** Shows what failed; a refused key can be entered again. */
function report(error) {
    if (error?.name === "AbortError")
        return;
    notice.replaceChildren(el("span", {}, error?.message || String(error)));
    if (error instanceof Failure && error.status === 401) {
        const field = el("input", {type: "password", "aria-label": "API key", placeholder: "API key",
            autocomplete: "off"});

        notice.append(el("form", {class: "row", onsubmit: (event) => {
            event.preventDefault();
            setKey(field.value);
            start();
        }}, field, el("button", {}, "Use this key")));
    } else {
        notice.append(button("Close", () => notice.replaceChildren(), {class: "small"}));
    }
}

/** The address has the view and its state: #sliders/{"text": ...}. */
function readAddress() {
    const [, name, state] = location.hash.match(/^#([a-z]+)(?:\/(.*))?$/) || [];

    try {
        return {name, state: state ? JSON.parse(decodeURIComponent(state)) : {}};
    } catch {
        return {name, state: {}};
    }
}

function tools() {
    const stored = localStorage.getItem("kvshift-theme") || "auto";
    const theme = select("Colours", [["auto", "System"], ["light", "Light"], ["dark", "Dark"]],
        stored, (value) => {
            localStorage.setItem("kvshift-theme", value);
            applyTheme(value);
        });

    applyTheme(stored);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change",
        () => applyTheme(theme.value));
    return theme;
}

let started = false;

async function start() {
    let about;

    try {
        about = await ask("/lens/model");
    } catch (error) {
        report(error);
        return;
    }
    notice.replaceChildren();

    const views = new Map(), tabs = new Map();
    const bar = document.getElementById("tabs");
    let current = null;
    const page = {about, report, clear: () => notice.replaceChildren(), text: "",
        /** Puts the state of a view into the address, without a step in the history. */
        remember(name, state) {
            if (current === name)
                history.replaceState(null, "",
                    `#${name}/${encodeURIComponent(JSON.stringify(state))}`);
        },
        /** Goes to a view with a state. */
        go(name, state) {
            location.hash = `#${name}/${encodeURIComponent(JSON.stringify(state))}`;
        }};

    function open(name, state) {
        const view = VIEWS.find((v) => v.name === name && tabs.has(v.name)) || VIEWS[0];

        if (current && current !== view.name)
            views.get(current)?.hide?.();
        current = view.name;
        for (const [key, tab] of tabs) {
            tab.setAttribute("aria-selected", key === current);
            tab.tabIndex = key === current ? 0 : -1;
        }
        tabs.get(current).scrollIntoView({block: "nearest", inline: "nearest"});
        if (!views.has(current))
            views.set(current, view.make(page));
        main.replaceChildren(views.get(current).node);
        main.setAttribute("aria-label", view.title);
        Promise.resolve(views.get(current).show?.(state)).catch(report);
    }

    document.getElementById("model-name").textContent =
        about.models.map((model) => model.name).join(" · ");
    bar.replaceChildren(...VIEWS.filter((view) => view.wanted(about)).map((view) => {
        const tab = el("button", {type: "button", role: "tab", id: `tab-${view.name}`,
            onclick: () => {
                if (current !== view.name)
                    location.hash = `#${view.name}`;
            }}, view.title);

        tabs.set(view.name, tab);
        return tab;
    }));
    bar.onkeydown = (event) => {
        const all = [...tabs.values()], at = all.indexOf(document.activeElement);
        const by = {ArrowRight: 1, ArrowLeft: -1}[event.key];

        if (by && at >= 0) {
            const next = all[(at + by + all.length) % all.length];

            next.focus();
            next.click();
        }
    };
    if (!started) {
        document.getElementById("tools").replaceChildren(tools());
        window.addEventListener("unhandledrejection", (event) => report(event.reason));
    }
    started = true;
    window.onhashchange = () => {
        const {name, state} = readAddress();

        open(name, state);
    };
    window.onhashchange();
}

start();
