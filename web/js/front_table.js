// The front as a table: the same choice for those who do not see or use the chart.
import {h} from "./dom.js";
import {bytes, change, plural, time} from "./format.js";
import {BASIS, basisWords, techniqueWords} from "./words.js";

function row(point, series, words, chosen, onChoose) {
    return h("tr", {class: chosen ? "chosen" : null},
        h("td", null, h("button", {type: "button", class: "link", "data-plan": point.plan, "aria-pressed": String(chosen),
            onclick: () => onChoose(point, series)}, words)),
        h("td", {class: "num"}, bytes(point.peak_bytes)),
        h("td", {class: "num"}, change(point.memory_ratio ?? 1)),
        h("td", {class: "num"}, change(point.latency_ratio ?? 1)),
        h("td", {class: "num"}, time(point.latency_s)),
        h("td", {title: point.basis ? basisWords(point) : null}, point.basis === "measured"
            ? `${time(point.measured.latency_s)} on ${point.measured.device}` : BASIS[point.basis] ?? "–"),
        h("td", {class: "num"}, point.host_bytes ? bytes(point.host_bytes) : "–"),
        h("td", null, techniqueWords(point.techniques).join(", ") || "–"));
}

export function frontTable(pareto, chosen, onChoose) {
    const best = pareto.best;
    const rows = [row({...pareto.original, plan: "original"}, "original", "original", chosen === "original", onChoose),
        ...pareto.pareto.map((p, i) => row(p, "front", p.plan === best ? `plan ${i + 1} (best)` : `plan ${i + 1}`, p.plan === chosen, onChoose))];
    return h("details", null, h("summary", null, `The same as a table (${plural(pareto.pareto.length, "plan")})`),
        h("div", {class: "scroll"}, h("table", null,
            h("caption", {class: "sr"}, "Plans of the Pareto front; a button in each row chooses it"),
            h("thead", null, h("tr", null, ["Plan", "Peak", "Memory", "Time", "A step", "Time is", "Host memory", "Means"].map((text, i) =>
                h("th", {scope: "col", class: i > 0 && i < 7 && i !== 5 ? "num" : null}, text)))),
            h("tbody", null, rows))),
        pareto.baselines.filter((b) => b.not_applicable).map((b) => h("p", {class: "faint"}, `${b.name}${b.points.length ? "" : " does not apply"}: ${b.not_applicable}`)));
}
