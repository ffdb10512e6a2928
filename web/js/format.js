// Numbers for people. GB = 10^9 bytes, as everywhere in magisd.

const UNITS = ["B", "kB", "MB", "GB", "TB"];

function threeDigits(value) {
    return value < 10 ? value.toFixed(2) : value < 100 ? value.toFixed(1) : value.toFixed(0);
}

export function bytes(n) {
    if (n === null || n === undefined)
        return "–";
    let unit = 0;
    let value = Math.abs(n);
    while (value >= 999.5 && unit < UNITS.length - 1) {
        value /= 1000;
        unit++;
    }
    return `${n < 0 ? "−" : ""}${unit === 0 ? value.toFixed(0) : threeDigits(value)} ${UNITS[unit]}`;
}

// 35.6e12 FLOP/s is "35.6 TFLOP/s".
export function rate(n, unit) {
    if (!n)
        return "–";
    const prefixes = ["", "k", "M", "G", "T", "P"];
    let at = 0;
    while (n >= 999.5 && at < prefixes.length - 1) {
        n /= 1000;
        at++;
    }
    return `${threeDigits(n)} ${prefixes[at]}${unit}`;
}

// For an axis: one unit for all its ticks, no more digits than their step asks for.
function digitsFor(ticks, scale) {
    const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) * scale : 1;
    let digits = 0;
    while (digits < 3 && Math.abs(step * 10 ** digits - Math.round(step * 10 ** digits)) > 1e-6)
        digits++;
    return digits;
}

function labels(ticks, scale, unit) {
    const digits = digitsFor(ticks, scale);
    return ticks.map((t) => (t === 0 ? "0" : `${(t * scale).toFixed(digits)} ${unit}`));
}

export function byteTicks(ticks) {
    const top = Math.max(...ticks.map(Math.abs));
    let unit = 0;
    while (top / 1000 ** unit >= 1000 && unit < UNITS.length - 1)
        unit++;
    return labels(ticks, 1000 ** -unit, UNITS[unit]);
}

export function time(seconds) {
    if (seconds === null || seconds === undefined)
        return "–";
    if (seconds === 0)
        return "0 ms";
    if (seconds < 1e-3)
        return `${threeDigits(seconds * 1e6)} µs`;
    if (seconds < 1)
        return `${threeDigits(seconds * 1e3)} ms`;
    if (seconds < 100)
        return `${threeDigits(seconds)} s`;
    const minutes = Math.floor(seconds / 60);
    return minutes < 60 ? `${minutes} min ${Math.round(seconds % 60)} s` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}

export function timeTicks(ticks) {
    const top = Math.max(...ticks.map(Math.abs));
    const [scale, unit] = top < 1e-3 ? [1e6, "µs"] : top < 1 ? [1e3, "ms"] : [1, "s"];
    return labels(ticks, scale, unit);
}

// 0.22 of the original is "78 %" less.
export function percent(ratio, digits) {
    const value = ratio * 100;
    return `${value.toFixed(digits ?? (Math.abs(value) < 10 ? 1 : 0))} %`;
}

// Of a ratio to the original: "+5.2 %", "−78 %", "as before".
export function change(ratio) {
    if (ratio === null || ratio === undefined)
        return "–";
    if (ratio >= 10)
        return `× ${ratio.toFixed(0)}`;
    const value = (ratio - 1) * 100;
    if (Math.abs(value) < 0.05)
        return "±0 %";
    const text = Math.abs(value) < 10 ? Math.abs(value).toFixed(1) : Math.abs(value).toFixed(0);
    return `${value < 0 ? "−" : "+"}${text} %`;
}

export function changeTicks(ticks) {
    const digits = digitsFor(ticks, 100);
    return ticks.map((t) => {
        const text = Math.abs((t - 1) * 100).toFixed(digits);
        return `${Number(text) === 0 ? "±" : t < 1 ? "−" : "+"}${Number(text) === 0 ? 0 : text} %`;
    });
}

export function count(n) {
    return n === null || n === undefined ? "–" : Math.round(n).toLocaleString("en-US");
}

export function plural(n, one, many) {
    return `${count(n)} ${n === 1 ? one : many ?? `${one}s`}`;
}

export function ago(iso) {
    const then = Date.parse(iso);
    if (Number.isNaN(then))
        return "–";
    const s = Math.max(0, (Date.now() - then) / 1000);
    if (s < 10)
        return "just now";
    if (s < 60)
        return `${Math.floor(s)} s ago`;
    if (s < 3600)
        return `${Math.floor(s / 60)} min ago`;
    if (s < 86400)
        return `${Math.floor(s / 3600)} h ago`;
    if (s < 7 * 86400)
        return plural(Math.floor(s / 86400), "day") + " ago";
    return new Date(then).toLocaleDateString();
}

export function moment(iso) {
    return iso ? new Date(iso).toLocaleString([], {dateStyle: "medium", timeStyle: "short"}) : "–";
}
