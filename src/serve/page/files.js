// What is shown, as files: CSV and SVG.

import {button} from "./dom.js";

function save(name, type, text) {
    const link = document.createElement("a");

    link.href = URL.createObjectURL(new Blob([text], {type}));
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

/** A field of CSV.  A text that a spreadsheet would take for a formula gets an apostrophe. */
export function csvField(value) {
    let text = value === null || value === undefined ? "" : String(value);

    if (typeof value === "string" && /^[=+\-@\t\r]/.test(text))
        text = `'${text}`;
    return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}

/** A button that saves rows of values. */
export function csvButton(name, rows) {
    return button("CSV", () => save(`${name}.csv`, "text/csv;charset=utf-8",
        `${rows().map((row) => row.map(csvField).join(",")).join("\r\n")}\r\n`),
    {class: "small", title: "Save the numbers as CSV"});
}

const STYLES = ["fill", "stroke", "stroke-width", "stroke-dasharray", "opacity", "fill-opacity",
    "font-family", "font-size", "font-weight", "text-anchor"];

/** A drawing with its computed colours and fonts, which outside of the page it would not have. */
function standalone(node) {
    const copy = node.cloneNode(true);
    const from = [node, ...node.querySelectorAll("*")], to = [copy, ...copy.querySelectorAll("*")];
    const [, , width, height] = node.getAttribute("viewBox").split(" ");

    from.forEach((element, i) => {
        const style = getComputedStyle(element);

        for (const name of STYLES)
            to[i].setAttribute(name, style.getPropertyValue(name));
        for (const name of ["class", "style", "tabindex"])
            to[i].removeAttribute(name);
    });
    copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
    copy.setAttribute("width", width);
    copy.setAttribute("height", height);
    copy.style.background = getComputedStyle(document.documentElement).getPropertyValue("--panel");
    return new XMLSerializer().serializeToString(copy);
}

/** A button that saves a drawing; `drawing` returns it. */
export function svgButton(name, drawing) {
    return button("SVG", () => {
        const node = drawing();
        const hidden = !node.isConnected; // computed styles need a place in the page

        if (hidden) {
            node.style.position = "absolute";
            node.style.left = "-10000px";
            document.body.append(node);
        }
        save(`${name}.svg`, "image/svg+xml", standalone(node));
        if (hidden)
            node.remove();
    }, {class: "small", title: "Save the drawing as SVG"});
}
