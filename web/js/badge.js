// A job's state and outcome, in a word and a colour.
import {h} from "./dom.js";

export const STATES = ["validating", "queued", "waiting", "running", "cancelling", "succeeded", "failed", "cancelled"];
const ENDED = new Set(["succeeded", "failed", "cancelled"]);
const TONE = {succeeded: "good", failed: "bad", cancelled: "dim", running: "live", cancelling: "live"};
const OUTCOME = {
    met: ["limit met", "good"],
    not_met: ["limit not met", "warn"],
    infeasible: ["limit impossible", "bad"],
    front: null, // no limit was asked for
};

export function isEnded(job) {
    return ENDED.has(job.state);
}

export function stateBadge(job) {
    const outcome = OUTCOME[job.outcome];
    return h("span", {class: "badges"},
        h("span", {class: `badge ${TONE[job.state] ?? ""}`, "data-state": job.state}, job.state),
        outcome ? h("span", {class: `badge ${outcome[1]}`}, outcome[0]) : null);
}

export function labelChips(job) {
    return Object.entries(job.labels ?? {}).map(([key, value]) => h("span", {class: "chip"}, `${key}:${value}`));
}

export function titleOf(job) {
    return job.name || job.network || job.id;
}
