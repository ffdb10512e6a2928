// A plan to take away, in the formats that the daemon says it is to be had in.
import {address, download, token} from "./api.js";
import {howToApply} from "./apply.js";
import {h, icon, toast} from "./dom.js";

const LABELS = {json: "Plan (JSON)", torch: "PyTorch module", checkpoint: "Checkpoint advice", onnx: "ONNX model", dot: "Drawing (DOT)"};
const ABOUT = {
    json: "What magis_apply.py runs and magisd check proves",
    torch: "A Python module: step(inputs, weights) does the step by this plan",
    checkpoint: "Which modules to keep, recompute or park, and lines to paste into a training script",
    onnx: "The operators in the order of the plan, for any runtime",
    dot: "For Graphviz",
};

// With a token a link alone would be refused: the file is fetched and handed over.
async function fetchInstead(event, path, name) {
    if (!token.get())
        return;
    event.preventDefault();
    try {
        await download(path, name);
    } catch (error) {
        toast(error.detail ?? String(error), true);
    }
}

function offer(id, plan, {format, extension, available}) {
    const label = LABELS[format] ?? format;
    const path = `/jobs/${id}/plans/${plan}?format=${format}`;
    const name = `${id}-${plan}.${extension}`;
    if (!available)
        return h("button", {type: "button", disabled: true, "data-format": format, "aria-describedby": `no-${format}`}, icon("down"), label);
    return h("a", {class: "button", href: address(path), download: name, title: ABOUT[format], "data-format": format,
        onclick: (event) => fetchInstead(event, path, name)}, icon("down"), label);
}

function offers(id, plan, {formats, captured}) {
    const order = Object.keys(LABELS);
    const sorted = [...formats].sort((a, b) => order.indexOf(a.format) - order.indexOf(b.format));
    const missing = sorted.filter((f) => !f.available);
    return [h("div", {class: "row"}, sorted.map((f) => offer(id, plan, f))),
        ...missing.map((f) => h("p", {class: "faint reason", id: `no-${f.format}`}, `No ${LABELS[f.format] ?? f.format}: ${f.reason}.`)),
        howToApply(id, plan, sorted, captured)];
}

// Drawn when the promised answer comes: the plan is there to be seen without it.
export function downloads(id, plan, promised) {
    const box = h("div", {class: "take", role: "group", "aria-label": "Take it with you", "aria-busy": "true"});
    promised.then((known) => box.replaceChildren(...offers(id, plan, known)),
        (error) => box.replaceChildren(h("p", {class: "faint reason", id: "no-formats"},
            `No files to take: ${error.detail ?? String(error)}. Choose the plan again to ask again.`)))
        .finally(() => box.removeAttribute("aria-busy"));
    return box;
}
