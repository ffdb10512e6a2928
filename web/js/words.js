// What a plan does, in words: from the timeline's lists of regions, recomputed and swapped.
import {bytes, plural, time} from "./format.js";

// Axes are named by the operator's form: d0 is dimension 0 of an elementwise result, b0 a batch
// dimension of a product, i0 that of the indices of a look-up, m rows, n the samples of a convolution, ...
const LEADING = new Set(["d0", "b0", "i0", "x0", "m", "n"]);
const AXES = {h: "the heads", f: "the features", c: "the channels", g: "the groups", k: "the summed dimension"};

// The batch is known by its length, where the network's options tell it.
export function axisWords(region, batch) {
    const {axis, length} = region;
    if (LEADING.has(axis) && batch && length === batch)
        return "the batch";
    if (AXES[axis])
        return AXES[axis];
    return /^s\d/.test(axis) ? "a spatial dimension" : LEADING.has(axis) ? "the leading dimension" : `dimension ${axis}`;
}

function sum(list, key) {
    return list.reduce((total, item) => total + item[key], 0);
}

function splitWords(regions, batch) {
    const outer = regions.filter((r) => r.parent === null);
    const inner = regions.length - outer.length;
    if (outer.length === 0)
        return null;
    const parts = outer.map((r) => r.parts);
    const axes = [...new Set(outer.map((r) => axisWords(r, batch)))];
    const few = Math.min(...parts);
    const most = Math.max(...parts);
    const into = few === most ? `${few} parts` : `${few} to ${most} parts`;
    const along = axes.length <= 2 ? `along ${axes.join(" or ")} ` : "";
    const where = outer.length === 1 ? "" : ` (${plural(outer.length, "region")})`;
    const nested = inner ? `, and parts of them once more (${plural(inner, "nested region")})` : "";
    return `splits ${plural(sum(outer, "operators"), "operator")} ${along}into ${into}${where}${nested}`;
}

function recomputeWords(list) {
    if (list.length === 0)
        return null;
    return `recomputes ${plural(list.length, "operator")} (${bytes(sum(list, "bytes"))} of results need not be kept)`;
}

function swapWords(list, host) {
    if (list.length === 0)
        return null;
    return `parks ${bytes(host || sum(list, "bytes"))} in host memory (${plural(list.length, "value")}, copied back before use)`;
}

// One sentence of up to three parts, for a plan that is not the original.
export function planWords(timeline, batch, isSmaller = true) {
    const parts = [splitWords(timeline.regions, batch), recomputeWords(timeline.recomputed),
        swapWords(timeline.swapped, timeline.host_bytes)].filter(Boolean);
    if (parts.length === 0 && !isSmaller)
        return "Does the same as the original.";
    if (parts.length === 0)
        return "Runs the same operators once each, in an order that holds less at a time.";
    const text = parts.join("; ");
    return `${text[0].toUpperCase()}${text.slice(1)}.`;
}

const starred = (name) => name.replace(/\d+/g, "*");

// The daemon groups by module and operator, where the graph names no module by name.
const groupKey = ({name, module, op, kind}) => JSON.stringify([starred(module || name), module ? op : "", kind]);

// A module's path, and that it is one where numbers alone do not tell.
export function moduleWords(path) {
    return /[^\d.*]/.test(path) ? path : `module ${path}`;
}

// The first and the last operator of a region, by their modules where those tell them apart.
export function spanWords({first, last, first_module: from, last_module: to}) {
    const [a, b] = from && to && (from !== to || first === last) ? [moduleWords(from), moduleWords(to)] : [first, last];
    return a === b ? a : `${a} … ${b}`;
}

// As much of a path as there is room for: its end tells more; null where only numbers would be left.
export function endOfPath(path, fits) {
    const ends = [path, ...[...path.matchAll(/\./g)].map(({index}) => `…${path.slice(index + 1)}`)];
    return ends.find((end) => /[^\d.*…]/.test(end) && fits(end)) ?? null;
}

// What holds memory at the peak. The daemon adds up all values by module, operator and kind (numbers in which layers
// differ are *); the values themselves are listed only as far as they are large.
export function groupHot({hot, hot_groups: groups}) {
    const members = new Map(groups.map((group) => [groupKey(group), []]));
    for (const value of hot)
        members.get(groupKey(value))?.push(value);
    return groups.map((group) => ({...group, name: group.module ? moduleWords(group.module) : group.name,
        values: members.get(groupKey(group))}));
}

// Operators or values of a plan by module and operator, largest first; those in no module stay by themselves.
export function groupByModule(list) {
    const groups = new Map();
    for (const item of list) {
        const key = item.module ? `${starred(item.module)} ${item.op}` : Symbol(item.name);
        groups.set(key, [...groups.get(key) ?? [], item]);
    }
    return [...groups.values()].map((items) => {
        const [{name, module, op}] = items;
        const path = items.every((item) => item.module === module) ? module : starred(module);
        return {name: module ? moduleWords(path) : name, op: module ? op : null, count: items.length, bytes: sum(items, "bytes"),
            times: [Math.min(...items.map((item) => item.times)), Math.max(...items.map((item) => item.times))], items};
    }).sort((a, b) => b.bytes - a.bytes);
}

const TECHNIQUES = {fission: "split", window_fission: "split (windows)", remat: "recompute", swap: "swap", reorder: "reorder",
    rewrite: "rewrite"};

export function techniqueWords(list) {
    return (list ?? []).map((name) => TECHNIQUES[name] ?? name);
}

// What was asked for, where it was bytes: plans have what the reserve leaves of them.
export function limitWords(request) {
    const {memory_bytes: limit} = request?.limit ?? {};
    if (!limit)
        return null;
    const {reserve_bytes: reserve} = request;
    return `limit ${bytes(limit)}${reserve ? `, of which ${bytes(reserve)} are kept for context and libraries` : ""}`;
}

// What a card needs beside the figures, which are of the plan's own memory.
export function besideWords(request) {
    const reserve = request?.reserve_bytes;
    return reserve ? `and ${bytes(reserve)} beside it for context and libraries` : null;
}

// Where the prices of the operators come from, and whether plans were measured as wholes beside that.
export function priceWords(prices, operators, wholes = 0) {
    const words = operatorWords(prices, operators);
    return wholes ? `${words}; ${plural(wholes, "plan")} measured as a whole` : words;
}

function operatorWords(prices, operators) {
    const measured = (prices?.exact ?? 0) + (prices?.near ?? 0);
    const scaled = prices?.scaled ?? 0;
    if (measured > 0.9999)
        return prices.near > 0 ? "times measured on this model of device, some with other software" : "times measured on this device";
    if (measured + scaled < 0.0001)
        return "times of operators modelled from the device's profile, none measured";
    if (!operators)
        return `times: ${(measured * 100).toFixed(0)} % of the operators measured, the rest modelled`;
    const number = (share) => Math.round(share * operators);
    return `times: ${number(1 - measured - scaled)} of ${operators} operators modelled, ${number(scaled)} scaled from measured ones, `
        + `${number(measured)} measured`;
}

// What is known of a point's time, in a word and in a sentence.
export const BASIS = {model: "modelled", operators: "priced", measured: "measured"};

export function basisWords(point) {
    const m = point.measured;
    if (m)
        return `Measured as a whole on ${m.device}: ${time(m.latency_s)} (${plural(m.runs, "run")}, ± ${time(m.mad_s)}`
            + `${m.busy ? ", others used the device" : ""}), peak ${bytes(m.peak_bytes)}; predicted ${time(point.latency_s)}`
            + `${m.sum_of_operators_s ? `, from its operators, timed there, ${time(m.sum_of_operators_s)}` : ""}.`;
    const share = point.measured_share > 0 ? ` (${Math.round(100 * point.measured_share)} % of them)` : "";
    return point.basis === "operators" ? `Its time is priced from measured operators${share}; the plan as a whole was not measured.`
        : "Its time is modelled from the device's profile, not measured.";
}

// What a point takes by timings that came after its search (GET /jobs/{id}/repricing).
export function repricedWords(repricing, plan) {
    const now = [repricing.original, ...repricing.pareto].find((p) => p.plan === plan);
    if (!now)
        return null;
    const same = repricing.class === repricing.priced_class && repricing.generation === repricing.priced_generation;
    const share = Math.round(100 * now.measured_share);
    return `${same ? "Nothing was measured since: it takes" : `By all that is measured now (generation ${repricing.generation}) it takes`} `
        + `${time(now.latency_s)}${same ? "" : `, before ${time(now.latency_before_s)}`}; ${share} % of its operators are measured`
        + `${now.stands === false ? "; another plan is now as good in time and memory" : ""}.`;
}

const MEASURING = {wanted: "waits for an agent with such a device", measuring: "is being measured", failed: "could not be measured"};

export function measuringWords(point) {
    return MEASURING[point.measuring] ? `It ${MEASURING[point.measuring]}.` : null;
}
