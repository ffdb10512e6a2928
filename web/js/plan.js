// The chosen plan beside the original: timelines, what holds memory at the peak, what the plan does.
import {api} from "./api.js";
import {downloads} from "./downloads.js";
import {dotted, fill, h, pathWords, toast} from "./dom.js";
import {bytes, change, count, plural, time} from "./format.js";
import {asProblem, problemCard} from "./problem.js";
import {KIND_COLOURS, TimelineChart} from "./timeline_chart.js";
import {momentsOf, total} from "./timeline_data.js";
import {axisWords, basisWords, groupByModule, groupHot, measuringWords, planWords, repricedWords, spanWords} from "./words.js";

const MOST_ROWS = 12;
const SAMPLES = 12;
const MOST_STRETCH = 2.5;

// ---- hot spots ----

function aboutGroup({count, values, op}) {
    const [first] = values;
    const from = op ? ` from ${op}` : "";
    if (!first)
        return `${plural(count, "value")}${from}`;
    const alike = values.length === count && values.every((v) => v.bytes === first.bytes);
    if (count > 1)
        return `${plural(count, "value")}${from}, ${alike ? `${bytes(first.bytes)} each` : `the largest ${bytes(first.bytes)}`}`;
    return `${first.shape.join("×") || "scalar"} ${first.dtype}${first.op ? ` from ${first.op}` : ""}`;
}

const fullName = ({name, module}) => (module ? `${name} in ${module}` : name);

function hotList(timeline, whole) {
    const groups = groupHot(timeline);
    const top = groups[0]?.bytes || 1;
    const shown = whole ? groups : groups.slice(0, 6);
    return h("ol", {class: "hot"}, shown.map((group) => {
        return h("li", null,
            h("span", {class: "hot-name", title: group.values.map(fullName).join("\n")}, pathWords(group.name)),
            h("span", {class: "num"}, bytes(group.bytes)),
            h("span", {class: "hot-bar", "aria-hidden": "true"}, h("span", {style: {width: `${(100 * group.bytes / top).toFixed(1)}%`,
                background: `var(${KIND_COLOURS[group.kind] ?? "--k-other"})`}})),
            h("small", null, dotted("faint", [group.kind, aboutGroup(group)])));
    }));
}

function samples(timeline) {
    const {kinds} = timeline;
    const points = momentsOf(timeline);
    const step = Math.max(1, Math.floor(points.length / SAMPLES));
    const chosen = points.filter((_, i) => i % step === 0);
    return h("details", null, h("summary", null, "As a table"), h("div", {class: "scroll"}, h("table", null,
        h("thead", null, h("tr", null, h("th", {scope: "col"}, "At"), kinds.map((kind) => h("th", {scope: "col", class: "num"}, kind)),
            h("th", {scope: "col", class: "num"}, "in all"))),
        h("tbody", null, chosen.map((point) => h("tr", null, h("td", null, time(point[0])),
            point.slice(1).map((n) => h("td", {class: "num"}, bytes(n))),
            h("td", {class: "num"}, bytes(total(point)))))))));
}

function panel(title, timeline, note) {
    const box = h("div", {class: "chart-box"});
    const more = timeline.hot_groups.length > 6 ? h("button", {type: "button", class: "link", onclick: () => {
        fill(hot, hotList(timeline, true));
        more.remove();
    }}, "Show all") : null;
    const hot = h("div", null, hotList(timeline, false));
    const card = h("section", {class: "card timeline"}, h("div", {class: "card-head"}, h("h3", null, title), h("span", {class: "faint"}, note)),
        box, h("h4", null, "What is alive at the peak"), hot, more, samples(timeline));
    return {card, box};
}

// ---- what it does ----

function limitedTable(heads, rows) {
    const body = h("tbody", null, rows.slice(0, MOST_ROWS));
    const more = rows.length > MOST_ROWS ? h("button", {type: "button", class: "link", onclick: () => {
        body.append(...rows.slice(MOST_ROWS));
        more.remove();
    }}, `Show all ${rows.length}`) : null;
    return h("div", null, h("div", {class: "scroll"}, h("table", null,
        h("thead", null, h("tr", null, heads.map(([text, num]) => h("th", {scope: "col", class: num ? "num" : null}, text)))), body)), more);
}

function regionRows(regions, batch) {
    return regions.map((r) => h("tr", null,
        h("td", null, r.parent === null ? `region ${r.id + 1}` : `region ${r.id + 1}, in ${r.parent + 1}`),
        h("td", {class: "num"}, count(r.operators)),
        h("td", null, `${axisWords(r, batch)} (${r.length})`),
        h("td", {class: "num"}, r.parts),
        h("td", {class: "name", title: `${r.first} … ${r.last}`}, pathWords(spanWords(r)))));
}

// `what`: of what the list is, "operator" or "value".
function countTable(list, what, heads) {
    const groups = groupByModule(list);
    const rows = groups.map(({name, op, count, bytes: size, times: [least, most], items}) => h("tr", null,
        h("td", {class: "named", title: items.map(fullName).join("\n")}, h("span", {class: "name"}, pathWords(name)),
            op ? h("small", {class: "faint block"}, count > 1 ? `${op}, ${plural(count, what)}` : op) : null),
        h("td", {class: "num"}, bytes(size)), h("td", {class: "num"}, least === most ? least : `${least} to ${most}`)));
    return limitedTable([[groups.some(({op}) => op) ? "Module" : `${what[0].toUpperCase()}${what.slice(1)}`], ...heads], rows);
}

function doesCard(timeline, batch) {
    const parts = [
        ["Split", timeline.regions.length, () => limitedTable([["Region"], ["Operators", true], ["Along"], ["Parts", true], ["From … to"]],
            regionRows(timeline.regions, batch))],
        ["Recomputed", timeline.recomputed.length, () => countTable(timeline.recomputed, "operator", [["Result", true], ["Times again", true]])],
        ["Swapped to the host", timeline.swapped.length, () => countTable(timeline.swapped, "value", [["Size", true], ["Loads", true]])],
    ];
    const present = parts.filter(([, n]) => n > 0);
    return present.map(([title, n, draw], i) => h("details", {open: i === 0}, h("summary", null, `${title} (${n})`), draw()));
}

// ---- together ----

export class PlanView {
    constructor(box, id, onReplaced, onMeasuring) {
        Object.assign(this, {box, id, onReplaced, onMeasuring, charts: [], cache: new Map(), batch: null});
        this.stop = new AbortController();
    }

    setBatch(batch) {
        this.batch = batch;
        if (this.drawn)
            this.draw(...this.drawn);
    }

    pathOf(plan, what) {
        return `/jobs/${this.id}/plans/${plan}/${what}`;
    }

    // What the daemon tells of a plan, "timeline" or "formats"; the last ones are kept, but no failures.
    about(plan, what) {
        const path = this.pathOf(plan, what);
        if (!this.cache.has(path)) {
            if (this.cache.size > 24)
                this.cache.delete([...this.cache.keys()].find((key) => !key.includes("/original/")));
            const answer = api(path, {signal: this.stop.signal});
            answer.catch(() => this.cache.delete(path));
            this.cache.set(path, answer);
        }
        return this.cache.get(path);
    }

    async show(point, series) {
        this.point = point; // while the timelines are read more may become known of it
        if (this.shown === point.plan && this.cache.has(this.pathOf(point.plan, "formats"))) {
            this.drawBasis(point);
            return;
        }
        this.shown = point.plan;
        this.box.setAttribute("aria-busy", "true");
        try {
            const formats = this.about(point.plan, "formats");
            formats.catch(() => {}); // told where they would stand
            const [original, chosen] = await Promise.all([this.about("original", "timeline"), this.about(point.plan, "timeline")]);
            if (this.shown === point.plan)
                this.draw(this.point, series, original, chosen, formats);
        } catch (error) {
            if (this.stop.signal.aborted || this.shown !== point.plan)
                return;
            this.shown = null;
            if (error.status === 410 && error.replacedBy)
                this.onReplaced(error.replacedBy);
            else
                this.drawProblem(error, point, series);
        } finally {
            this.box.removeAttribute("aria-busy");
        }
    }

    drawProblem(error, point, series) {
        this.clear();
        fill(this.box, problemCard(asProblem(error), () => this.show(point, series)));
    }

    clear() {
        for (const chart of this.charts)
            chart.destroy();
        this.charts = [];
    }

    draw(point, series, original, chosen, formats) {
        this.drawn = [point, series, original, chosen, formats];
        this.clear();
        const isOriginal = point.plan === "original";
        const before = panel("As it is", original, `${bytes(original.peak_bytes)} · ${time(original.latency_s)}`);
        const after = isOriginal ? null : panel(series ? `Baseline: ${series}` : "With the chosen plan", chosen,
            `${bytes(chosen.peak_bytes)} · ${time(chosen.latency_s)}`);
        const topBytes = Math.max(original.peak_bytes, chosen.peak_bytes);
        // One scale of time for both, unless that would squeeze the shorter one into a corner.
        const both = Math.max(original.latency_s, chosen.latency_s);
        const topTime = (timeline) => (both <= MOST_STRETCH * timeline.latency_s ? both : timeline.latency_s);
        fill(this.box, this.summary(point, series, chosen, formats, isOriginal),
            h("div", {class: after ? "columns even" : ""}, before.card, after?.card));
        this.charts.push(new TimelineChart(before.box, {title: "the original", timeline: original, topBytes, topTime: topTime(original)}));
        if (after)
            this.charts.push(new TimelineChart(after.box, {title: "the chosen plan", timeline: chosen, topBytes, topTime: topTime(chosen)}));
    }

    summary(point, series, chosen, formats, isOriginal) {
        const figures = isOriginal ? "The network as it is"
            : `${bytes(point.peak_bytes)} (${change(point.memory_ratio)}), ${time(point.latency_s)} a step (${change(point.latency_ratio)})`;
        return h("section", {class: "card does", "aria-labelledby": "does-title"},
            h("div", {class: "card-head"}, h("h2", {id: "does-title"}, series ? "The chosen baseline" : isOriginal ? "The original" : "The chosen plan"),
                this.why = this.whyLine(point)),
            h("p", {class: "figures"}, dotted("", [h("strong", null, figures),
                isOriginal ? null : h("span", {class: "faint"}, `arena ${bytes(point.arena_bytes)}`)])),
            h("p", {id: "plan-words"}, isOriginal ? "Every operator once, in the order of the graph, each value freed after its last reader: "
                + "what an eager framework does." : planWords(chosen, this.batch, point.memory_ratio < 1)),
            this.basis = this.basisLine(point),
            downloads(this.id, point.plan, formats),
            isOriginal ? null : doesCard(chosen, this.batch));
    }

    // Why this plan is shown, where nobody chose it.
    whyLine(point) {
        return h("span", {class: "faint", id: "plan-why"}, point.why ?? "");
    }

    // Modelled, priced or measured; and a button that asks for more.
    basisLine(point) {
        const open = point.measuring === "wanted" || point.measuring === "measuring";
        const ask = async (event) => {
            event.currentTarget.disabled = true;
            try {
                const wish = await api(this.pathOf(point.plan, "measure"), {method: "POST", json: {device: "any"}});
                if (wish.note)
                    toast(wish.note, true);
                this.onMeasuring();
            } catch (error) {
                toast(error.detail ?? String(error), true);
                this.drawBasis(point);
            }
        };
        const again = h("span", {id: "plan-repriced"});
        const reprice = async (event) => {
            const button = event.currentTarget;
            button.disabled = true;
            try {
                again.replaceChildren(repricedWords(await api(`/jobs/${this.id}/repricing`), point.plan) ?? "", " ");
                button.remove();
            } catch (error) {
                toast(error.detail ?? String(error), true);
                button.disabled = false;
            }
        };
        return h("p", {id: "plan-basis", class: "faint row"}, h("span", null, basisWords(point), " ", measuringWords(point), " ", again),
            point.k === null || point.k === undefined ? null : h("button", {type: "button", class: "link", id: "do-reprice",
                onclick: reprice}, "Price it anew"),
            open || !point.basis ? null : h("button", {type: "button", class: "link", id: "do-measure", onclick: ask},
                point.measured ? "Measure it again" : "Measure it on a device"));
    }

    drawBasis(point) {
        if (!this.basis?.isConnected)
            return;
        for (const [name, line] of [["basis", this.basisLine(point)], ["why", this.whyLine(point)]]) {
            this[name].replaceWith(line);
            this[name] = line;
        }
        this.drawn[0] = point;
    }

    destroy() {
        this.stop.abort();
        this.clear();
    }
}
