// What went wrong and what to do about it.
import {h} from "./dom.js";
import {address} from "./api.js";
import {askToken} from "./token.js";

// The daemon speaks to programs; where that would not help a person, the page says it in its own words.
const WORDS = {
    "invalid-request": {title: "Something that was asked for is not possible"},
    "not-found": {title: "There is no such thing", hint: "Look for it in the list of runs."},
    "bad-cursor": {hint: "Go back to the first page of the list."},
    "invalid-json": {hint: "Mend the file at the place that is named above."},
    "too-large": {hint: "Take a smaller graph, or ask whoever runs the daemon for more (--max-body)."},
    "not-ended": {hint: "Stop it, or wait for its end, and try again."},
    "plan-not-found": {hint: "Choose one of the plans of this run."},
    "plan-replaced": {hint: "Choose it in the chart."},
    internal: {hint: "Report it with the number below; the daemon's log has more."},
};
for (const name of ["too-many-requests", "queue-full", "draining", "busy"])
    WORDS[name] = {hint: "Try again in a few seconds."};

const PLACES = [
    [/^\/zoo\/model$/, () => "the network"],
    [/^\/zoo\/([^/]+)$/, (name) => `the network's ${name}`],
    [/^\/training\/([^/]+)$/, (name) => `the training step's ${name}`],
    [/^\/symbols(?:\/(.+))?$/, (name) => (name ? `the size of ${name}` : "the sizes of symbols")],
    [/^\/limit(\/.*)?$/, () => "the limit"],
    [/^\/budget\/([^/]+)$/, (name) => (name === "seed" ? "the seed" : "the budget of the search")],
    [/^\/(device|name|techniques)$/, (name) => `the ${name}`],
];

// The place in the request that is to blame, as a person would call it; null where only its pointer tells.
export function placeWords(pointer) {
    for (const [pattern, words] of PLACES) {
        const found = pattern.exec(pointer ?? "");
        if (found)
            return words(found[1]);
    }
    return null;
}

// What to do, and the title, for a person.
export function personWords(problem) {
    const name = problem.type?.replace("/errors/", "") ?? "";
    const place = placeWords(problem.pointer);
    const invalid = name === "invalid-request" || name === "invalid-graph";
    const words = WORDS[invalid && place ? "invalid-request" : name] ?? {};
    return {title: words.title ?? problem.title ?? "Something failed", place,
        hint: invalid ? `Correct ${place ?? "it as it says above"}, and try again.` : words.hint ?? problem.hint ?? null};
}

export function problemCard(problem, retry) {
    const unauthorised = problem.status === 401;
    const {title, place, hint} = personWords(problem);
    const request = problem.requestId ?? problem.request_id;
    return h("div", {class: "problem", role: "alert"},
        h("strong", null, title),
        problem.detail && problem.detail !== problem.title ? h("p", null, problem.detail) : null,
        problem.pointer && !place ? h("p", null, "The place: ", h("code", null, problem.pointer)) : null,
        hint ? h("p", {class: "hint"}, "What to do: ", hint) : null,
        problem.stderr ? h("details", null, h("summary", null, "The last lines of the worker"), h("pre", null, problem.stderr)) : null,
        h("p", {class: "row"},
            unauthorised ? h("button", {type: "button", class: "primary", onclick: () => askToken()}, "Enter a token") : null,
            retry ? h("button", {type: "button", onclick: retry}, "Try again") : null,
            problem.type?.startsWith("/errors/") ? h("a", {href: address(problem.type)}, "More about this problem") : null,
            request ? h("span", {class: "faint"}, `Its number in the daemon's log: ${request}`) : null));
}

// Anything thrown, as a problem.
export function asProblem(error) {
    return error.title ? error : {title: "The page has a bug", detail: String(error?.stack ?? error)};
}
