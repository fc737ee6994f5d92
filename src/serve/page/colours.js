// Scales of colours, with their legends.  Tokens have translucent backgrounds, so that their text is
// readable on light and on dark pages.

import {el, fixed, show} from "./dom.js";

const LEAST = 1e-3; // the probability that has the full colour

/** The background of a token with this log-probability: none if it was certain. */
export function probabilityColour(logprob) {
    if (logprob === null || logprob === undefined || !Number.isFinite(logprob))
        return "";
    const share = Math.min(1, Math.max(0, logprob / Math.log(LEAST)));

    return `rgb(var(--warm) / ${(0.62 * share).toFixed(3)})`;
}

/** The background for a change between -most and most.  The share of the colour is the root of the
 * share of the change, so that one large change does not hide the others. */
export function changeColour(change, most) {
    if (change === null || !Number.isFinite(change) || change === 0)
        return "";
    const share = Math.sqrt(Math.min(1, Math.abs(change) / most));

    return `rgb(var(${change > 0 ? "--cold" : "--warm"}) / ${(0.65 * share).toFixed(3)})`;
}

/** The smallest of 0.1, 0.2, 0.5, 1, 2, 5 ... that is not below the value, so that the scale keeps
 * still while a slider moves a little. */
export function roundUp(value, least = 0.1) {
    if (!(value > least))
        return least;
    const power = 10 ** Math.floor(Math.log10(value));

    return [1, 2, 5, 10].map((digit) => digit * power).find((limit) => limit >= value * 0.999999);
}

function legend(label, colours) {
    return el("div", {class: "legend", "aria-label": label}, el("span", {}, label),
        ...colours.map(([text, colour]) => el("span", {},
            el("span", {class: "swatch", style: {background: colour}}), text)));
}

export function probabilityLegend() {
    return legend("Probability of the token",
        [1, 0.5, 0.1, 0.01, LEAST].map((p) => [p === LEAST ? `≤ ${p}` : String(p),
            probabilityColour(Math.log(p))]));
}

export function changeLegend(label, most) {
    return legend(label, [-1, -0.25, -0.05, 0, 0.05, 0.25, 1].map((share) => [
        `${share > 0 ? "+" : ""}${show(share * most)}`,
        changeColour(share * most, most)]));
}

function rgbOf(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** A function that gives [red, green, blue] for values from -most to most: the background of panels
 * at 0, cold colours above and warm ones below.  The share of the colour is the root of the share
 * of the value, so that small weights are visible. */
export function signedScale(most) {
    const base = rgbOf("--panel").match(/[0-9a-f]{2}/gi).map((hex) => parseInt(hex, 16));
    const [cold, warm] = ["--cold", "--warm"].map((name) => rgbOf(name).split(/\s+/).map(Number));

    return (value) => {
        const share = Math.sqrt(Math.min(1, Math.abs(value) / most));
        const end = value < 0 ? warm : cold;

        return base.map((from, i) => Math.round(from + share * (end[i] - from)));
    };
}

export function signedLegend(label, most) {
    const scale = signedScale(most);

    return legend(label, [-1, -0.25, 0, 0.05, 0.25, 0.5, 1].map((share) => [
        fixed(share * most, 2), `rgb(${scale(share * most).join(" ")})`]));
}

/** Light, dark, or what the system says. */
export function applyTheme(choice) {
    const dark = choice === "dark" ||
        (choice === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);

    document.documentElement.dataset.theme = dark ? "dark" : "light";
    document.dispatchEvent(new Event("theme"));
}
