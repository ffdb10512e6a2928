// The Pareto front: step time against peak memory, with the baselines and the original. A point is
// chosen by a click or, with the chart focused, by the arrow keys.
import {axis, mountChart, scaleOf, text, uPlot} from "./chart.js";
import {fill, h} from "./dom.js";
import {byteTicks, bytes, change, changeTicks} from "./format.js";
import {colour} from "./theme.js";

const NAMES = {front: "magisd", microbatch: "micro-batching by hand", sublinear: "sublinear checkpointing"};
const LOOK = {front: "--accent", microbatch: "--base1", sublinear: "--base2", original: "--text"};
const RANGES = [[1.1, "+10 %"], [1.5, "+50 %"], [Infinity, "all"]];
const NEAR = 40; // pixels

function nameOf(series) {
    return NAMES[series] ?? series;
}

// [{series, points}], each in order of latency; points without figures are left out.
function seriesOf(pareto) {
    const list = [{series: "front", points: pareto.pareto}, ...pareto.baselines.map((b) => ({series: b.name, points: b.points}))];
    return list.map(({series, points}) => ({series,
        points: points.filter((p) => p.latency_ratio > 0 && p.peak_bytes > 0).sort((a, b) => a.latency_ratio - b.latency_ratio)}))
        .filter(({points}) => points.length > 0);
}

function joined(all, original) {
    const tables = all.map(({points}) => [points.map((p) => p.latency_ratio), points.map((p) => p.peak_bytes)]);
    tables.push([[1], [original.peak_bytes]]);
    // Equal times would be one column: only the better of them shows.
    return uPlot.join(tables.map(([xs, ys]) => {
        const kept = xs.map((x, i) => i).filter((i) => i === 0 || xs[i] !== xs[i - 1]);
        return [kept.map((i) => xs[i]), kept.map((i) => ys[i])];
    }));
}

function lookOf(series) {
    const stroke = colour(LOOK[series] ?? "--faint");
    const front = series === "front";
    return {stroke, width: front ? 2 : 1.5, dash: front ? undefined : [5, 4], spanGaps: true,
        paths: front ? uPlot.paths.stepped({align: 1}) : uPlot.paths.linear(),
        points: {show: true, size: front ? 7 : 6, fill: front ? stroke : colour("--card"), stroke, width: 1.5}};
}

export class FrontChart {
    constructor(box, onChoose) {
        this.onChoose = onChoose;
        this.range = 1.5;
        this.limits = {};
        this.host = h("div", {class: "chart", tabindex: 0, role: "slider", "aria-label": "Pareto front, choose a plan",
            "aria-valuemin": 0, "aria-valuemax": 0, "aria-valuenow": 0, onkeydown: (e) => this.key(e)});
        this.hover = h("div", {class: "chart-tip", hidden: true});
        this.host.append(this.hover);
        this.legend = h("div", {class: "legend"});
        fill(box, this.host, this.legend);
    }

    // Called with every new front; the choice survives by its id.
    update(pareto, limits) {
        this.pareto = pareto;
        this.limits = limits ?? {};
        this.all = seriesOf(pareto);
        if (this.mounted)
            this.mounted.redraw();
        else
            this.mounted = mountChart(this.host, (width) => (width < 500 ? 280 : 360), () => this.make());
        this.drawLegend();
        this.tell();
    }

    choose(point, series) {
        this.chosen = point;
        this.chosenSeries = series;
        this.widen(point.latency_ratio);
        this.mounted?.chart().redraw(false);
        this.tell();
    }

    tell() {
        const front = this.frontPoints();
        const at = front.findIndex((p) => p.plan === this.chosen?.plan);
        this.host.setAttribute("aria-valuemax", Math.max(0, front.length - 1));
        this.host.setAttribute("aria-valuenow", Math.max(0, at));
        if (this.chosen)
            this.host.setAttribute("aria-valuetext", `${bytes(this.chosen.peak_bytes)}, step time ${change(this.chosen.latency_ratio)}`);
    }

    frontPoints() {
        return this.all?.find(({series}) => series === "front")?.points ?? [];
    }

    xRange() {
        const most = Math.max(1.02, ...this.all.flatMap(({points}) => points.map((p) => p.latency_ratio)));
        const least = Math.min(1, ...this.all.flatMap(({points}) => points.map((p) => p.latency_ratio)));
        const top = Math.min(most, this.range);
        const pad = (top - least) * 0.04;
        return [least - pad, top + pad];
    }

    yRange() {
        const [from, to] = this.xRange();
        const seen = this.all.flatMap(({points}) => points.filter((p) => p.latency_ratio >= from && p.latency_ratio <= to));
        return [0, Math.max(this.pareto.original.peak_bytes, ...seen.map((p) => p.peak_bytes)) * 1.08];
    }

    make() {
        const narrow = this.host.clientWidth < 500;
        const options = {
            padding: [14, 14, 0, 0],
            cursor: {drag: {setScale: false}, points: {show: false}, x: false, y: false},
            scales: {x: {time: false, range: () => this.xRange()}, y: {range: () => this.yRange()}},
            axes: [axis(narrow ? "Step time, original = ±0 %" : "Time of a step, compared with the original",
                (u, ticks) => changeTicks(ticks), {space: 60, size: 30}),
            axis(narrow ? null : "Peak memory", (u, ticks) => byteTicks(ticks), {size: 64})],
            series: [{}, ...this.all.map(({series}) => lookOf(series)),
                {stroke: colour("--text"), width: 0, points: {show: true, size: 10, fill: colour("--text")}}],
            hooks: {draw: [(u) => this.decorate(u)], ready: [(u) => this.listen(u)]},
        };
        return {options, data: joined(this.all, this.pareto.original)};
    }

    decorate(u) {
        const {ctx, bbox} = u;
        const k = scaleOf();
        const place = (p) => [u.valToPos(p.latency_ratio ?? 1, "x", true), u.valToPos(p.peak_bytes, "y", true)];
        ctx.save();
        ctx.beginPath();
        ctx.rect(bbox.left, bbox.top - 14 * k, bbox.width + 14 * k, bbox.height + 14 * k);
        ctx.clip();
        this.drawLimits(u, k);
        const [x, y] = place({latency_ratio: 1, peak_bytes: this.pareto.original.peak_bytes});
        const right = x < bbox.left + bbox.width * 0.6;
        text(ctx, "original", x + (right ? 13 : -13) * k, y, {align: right ? "left" : "right", bold: true});
        if (this.chosen) {
            const [cx, cy] = place(this.chosen);
            ctx.beginPath();
            ctx.arc(cx, cy, 9 * k, 0, 2 * Math.PI);
            ctx.lineWidth = 3 * k;
            ctx.strokeStyle = colour("--pick");
            ctx.stroke();
        }
        ctx.restore();
    }

    drawLimits(u, k) {
        const {ctx, bbox} = u;
        ctx.setLineDash([2 * k, 4 * k]);
        ctx.lineWidth = 1.5 * k;
        ctx.strokeStyle = colour("--warn");
        ctx.beginPath();
        if (this.limits.peak) {
            const y = u.valToPos(this.limits.peak, "y", true);
            ctx.moveTo(bbox.left, y);
            ctx.lineTo(bbox.left + bbox.width, y);
        }
        if (this.limits.latency) {
            const x = u.valToPos(this.limits.latency, "x", true);
            ctx.moveTo(x, bbox.top);
            ctx.lineTo(x, bbox.top + bbox.height);
        }
        ctx.stroke();
        ctx.setLineDash([]);
        if (this.limits.peak)
            text(ctx, "limit", bbox.left + bbox.width - 6 * k, u.valToPos(this.limits.peak, "y", true) - 10 * k,
                {align: "right", colour: colour("--warn")});
        if (this.limits.latency)
            this.nameLatencyLimit(ctx, bbox, u.valToPos(this.limits.latency, "x", true), k);
    }

    // At the foot of its line: the name of the original may reach its head.
    nameLatencyLimit(ctx, bbox, x, k) {
        const fits = x + 40 * k < bbox.left + bbox.width;
        text(ctx, "limit", x + (fits ? 6 : -6) * k, bbox.top + bbox.height - 10 * k,
            {align: fits ? "left" : "right", colour: colour("--warn")});
    }

    // The nearest point of any series, in pixels.
    nearest(u, x, y) {
        let best = null;
        for (const {series, points} of [...this.all, {series: "original", points: [{latency_ratio: 1, ...this.pareto.original}]}])
            for (const point of points) {
                const px = u.valToPos(point.latency_ratio, "x");
                const py = u.valToPos(point.peak_bytes, "y");
                const distance = Math.hypot(px - x, py - y);
                if (distance < (best?.distance ?? NEAR))
                    best = {series, point, distance, px, py};
            }
        return best;
    }

    listen(u) {
        const over = u.over;
        const at = (event) => {
            const box = over.getBoundingClientRect();
            return this.nearest(u, event.clientX - box.left, event.clientY - box.top);
        };
        over.addEventListener("mousemove", (event) => this.showTip(u, at(event)));
        over.addEventListener("mouseleave", () => { this.hover.hidden = true; });
        over.addEventListener("click", (event) => {
            const hit = at(event);
            if (hit?.point.plan || hit?.series === "original")
                this.onChoose(hit.point, hit.series);
        });
        this.host.append(this.hover);
    }

    showTip(u, hit) {
        this.hover.hidden = !hit;
        u.over.style.cursor = hit ? "pointer" : "default";
        if (!hit)
            return;
        fill(this.hover, h("strong", null, hit.series === "original" ? "original" : nameOf(hit.series)), h("br"),
            `${bytes(hit.point.peak_bytes)}, time ${change(hit.point.latency_ratio)}`);
        const left = u.over.offsetLeft + hit.px;
        const flip = left > this.host.clientWidth - 190;
        this.hover.style.left = `${left + (flip ? -12 : 12)}px`;
        this.hover.style.top = `${u.over.offsetTop + hit.py}px`;
        this.hover.classList.toggle("flip", flip);
    }

    key(event) {
        const front = this.frontPoints();
        const at = front.findIndex((p) => p.plan === this.chosen?.plan);
        const to = {ArrowRight: at + 1, ArrowUp: at - 1, ArrowLeft: at - 1, ArrowDown: at + 1, Home: 0, End: front.length - 1}[event.key];
        if (to === undefined || front.length === 0)
            return;
        event.preventDefault();
        const point = front[Math.max(0, Math.min(front.length - 1, to))];
        this.onChoose(point, "front");
    }

    // The chosen point is seen, also where it is the nearest to a limit and takes much longer.
    widen(ratio) {
        if (ratio > this.range)
            this.setRange(ratio * 1.1);
    }

    setRange(range) {
        this.range = range;
        this.mounted?.redraw();
        this.drawLegend();
    }

    drawLegend() {
        const entries = this.all.map(({series}) => h("span", {class: `key ${series === "front" ? "" : "dashed"}`},
            h("span", {class: "swatch", style: {"--c": `var(${LOOK[series] ?? "--faint"})`}}), nameOf(series)));
        const missing = this.pareto.baselines.filter((b) => b.not_applicable && b.points.length === 0)
            .map((b) => h("span", {class: "key faint", title: b.not_applicable}, `${nameOf(b.name)}: not applicable`));
        const most = Math.max(1, ...this.all.flatMap(({points}) => points.map((p) => p.latency_ratio)));
        const ranges = most <= RANGES[0][0] ? null : h("span", {class: "segments", role: "group", "aria-label": "Range of times shown"},
            RANGES.map(([range, words]) => h("button", {type: "button", "aria-pressed": String(range === this.range),
                onclick: () => this.setRange(range)}, words)));
        fill(this.legend, h("span", {class: "keys"}, entries, missing), ranges);
    }

    destroy() {
        this.mounted?.destroy();
    }
}
