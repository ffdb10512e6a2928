// A timeline as it is drawn. Its points follow the plan's list of steps, in which the body of a region
// stands once, with part 0: here it comes once for each part, over the time that the region takes.

const MOST = 20000; // points of one region; beyond that its largest moment stands for all

function total(point) {
    return point.slice(1).reduce((a, b) => a + b, 0);
}

// A copy that waits for its link may start later than what is listed after it: times are made to rise
// by looking ahead.
function rising({points, latency_s: end}) {
    const out = new Array(points.length);
    let least = end;
    for (let i = points.length - 1; i >= 0; i--) {
        least = Math.min(least, points[i][0]);
        out[i] = [least, ...points[i].slice(1)];
    }
    return out;
}

function repeat(body, parts, begin, end) {
    if (body.length * parts > MOST) {
        const most = body.reduce((best, point) => (total(point) > total(best) ? point : best));
        return [[begin, ...most.slice(1)]];
    }
    const width = (end - begin) / parts;
    const out = [];
    for (let part = 0; part < parts; part++)
        for (const [x, ...amounts] of body)
            out.push([begin + part * width + Math.min(width, Math.max(0, x - begin)), ...amounts]);
    return out;
}

function unroll(points, regions, parent, from, to) {
    const out = [];
    let at = from;
    const inner = regions.filter((r) => r.parent === parent && r.to_point > r.from_point).sort((a, b) => a.from_point - b.from_point);
    for (const region of inner) {
        out.push(...points.slice(at, region.from_point + 1));
        const body = unroll(points, regions, region.id, region.from_point + 1, region.to_point);
        if (body.length)
            out.push(...repeat(body, region.parts, points[region.from_point][0], points[region.to_point][0]));
        at = region.to_point;
    }
    out.push(...points.slice(at, to));
    return out;
}

export function momentsOf(timeline) {
    return unroll(rising(timeline), timeline.regions, null, 0, timeline.points.length);
}

export {total};
