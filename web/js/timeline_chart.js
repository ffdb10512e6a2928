// Memory over time by kind, stacked.
import {axis, mountChart, scaleOf, text, uPlot, widthOf} from "./chart.js";
import {fill, h} from "./dom.js";
import {byteTicks, bytes, time, timeTicks} from "./format.js";
import {colour} from "./theme.js";
import {momentsOf, total} from "./timeline_data.js";
import {endOfPath, groupHot} from "./words.js";

export const KIND_COLOURS = {weights: "--k-weights", activations: "--k-activations", gradients: "--k-gradients",
    workspace: "--k-workspace", other: "--k-other"};

function columnsOf(points, {kinds, latency_s: end}) {
    const xs = points.map((p) => p[0]);
    // Totals from the top of the stack down, so that each area is painted over by the one below it.
    const stacks = kinds.map((_, k) => points.map((p) => p.slice(1, kinds.length + 1 - k).reduce((a, b) => a + b, 0)));
    if (points.length) {
        xs.push(end);
        for (const column of stacks)
            column.push(column.at(-1));
    }
    return [xs, ...stacks];
}

export class TimelineChart {
    constructor(box, {title, timeline, topBytes, topTime}) {
        Object.assign(this, {timeline, topBytes, topTime});
        this.points = momentsOf(timeline);
        [this.holder] = groupHot(timeline);
        this.data = columnsOf(this.points, timeline);
        this.readout = h("div", {class: "readout", "aria-live": "polite"});
        this.host = h("div", {class: "chart", tabindex: 0, role: "img", onkeydown: (e) => this.key(e),
            "aria-label": `Memory over time, ${title}: at most ${bytes(timeline.peak_bytes)}, ${time(timeline.latency_s)} in all`});
        fill(box, this.host, this.readout);
        this.mounted = mountChart(this.host, (width) => (width < 420 ? 200 : 240), () => this.make());
        this.tell(null);
    }

    make() {
        const {kinds} = this.timeline;
        const paths = uPlot.paths.stepped({align: 1});
        const series = kinds.map((_, k) => {
            const fillStyle = colour(KIND_COLOURS[kinds[kinds.length - 1 - k]] ?? "--k-other");
            return {fill: fillStyle, stroke: fillStyle, width: 0.5, paths, points: {show: false}};
        });
        const options = {
            padding: [16, 28, 0, 0], // right: half of the last label
            cursor: {y: false, points: {show: false}, drag: {setScale: false}},
            scales: {x: {time: false, range: () => [0, this.topTime]}, y: {range: () => [0, this.topBytes * 1.06]}},
            axes: [axis(null, (u, ticks) => timeTicks(ticks), {space: 70, size: 30}), axis(null, (u, ticks) => byteTicks(ticks), {size: 60})],
            series: [{}, ...series],
            hooks: {draw: [(u) => this.decorate(u)], setCursor: [(u) => this.tell(u.cursor.left >= 0 ? u.cursor.idx : null)]},
        };
        return {options, data: this.data};
    }

    decorate(u) {
        const {ctx, bbox} = u;
        const {peak, peak_bytes: bytesAtPeak} = this.timeline;
        const k = scaleOf();
        if (!peak)
            return;
        const x = u.valToPos(Math.min(peak.at_s, this.timeline.latency_s), "x", true);
        const y = u.valToPos(bytesAtPeak, "y", true);
        ctx.save();
        ctx.setLineDash([3 * k, 3 * k]);
        ctx.strokeStyle = colour("--text");
        ctx.lineWidth = k;
        ctx.beginPath();
        ctx.moveTo(bbox.left, y);
        ctx.lineTo(bbox.left + bbox.width, y);
        ctx.stroke();
        ctx.setLineDash([]);
        ctx.beginPath();
        ctx.arc(x, y, 4 * k, 0, 2 * Math.PI);
        ctx.fillStyle = colour("--text");
        ctx.fill();
        ctx.restore();
        const right = x < bbox.left + bbox.width / 2;
        const room = (right ? bbox.left + bbox.width - x : x - bbox.left) - 8 * k;
        text(ctx, this.peakWords((words) => widthOf(ctx, words, true) <= room), x + (right ? 8 : -8) * k, y - 9 * k,
            {align: right ? "left" : "right", bold: true});
    }

    // The peak, and what holds most of it as far as there is room.
    peakWords(fits) {
        const peak = `peak ${bytes(this.timeline.peak_bytes)}`;
        const end = endOfPath(this.holder?.name ?? "", (part) => fits(`${peak} · ${part}`));
        return end ? `${peak} · ${end}` : peak;
    }

    // What is alive at one moment; without one, the colours' meaning.
    tell(index) {
        const {kinds, peak_bytes: most, latency_s: end} = this.timeline;
        const {points} = this;
        const at = index === null || index === undefined ? null : Math.min(index, points.length - 1);
        const entries = kinds.map((kind, k) => [kind, at === null ? null : points[at][k + 1]])
            .filter(([, amount], k) => amount !== 0 && (at !== null || points.some((p) => p[k + 1] > 0)));
        const total = at === null ? most : total(points[at]);
        fill(this.readout, h("strong", null, at === null ? `at most ${bytes(total)} · ${time(end)}`
            : `${time(this.data[0][at])}: ${bytes(total)}`),
        entries.map(([kind, amount]) => h("span", {class: "key"},
            h("span", {class: "swatch block", style: {"--c": `var(${KIND_COLOURS[kind] ?? "--k-other"})`}}),
            amount === null ? kind : `${kind} ${bytes(amount)}`)));
    }

    key(event) {
        const u = this.mounted.chart();
        const step = {ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10}[event.key];
        if (step === undefined && event.key !== "Home" && event.key !== "End")
            return;
        event.preventDefault();
        const width = u.over.clientWidth;
        const from = u.cursor.left >= 0 ? u.cursor.left : 0;
        const left = event.key === "Home" ? 0 : event.key === "End" ? width - 1 : from + step * Math.max(2, width / 100);
        u.setCursor({left: Math.max(0, Math.min(width - 1, left)), top: 10});
    }

    destroy() {
        this.mounted.destroy();
    }
}
