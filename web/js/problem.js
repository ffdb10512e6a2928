// What went wrong and what to do about it.
import {h} from "./dom.js";
import {address} from "./api.js";
import {askToken} from "./token.js";

export function problemCard(problem, retry) {
    const unauthorised = problem.status === 401;
    return h("div", {class: "problem", role: "alert"},
        h("strong", null, problem.title ?? "Something failed"),
        problem.detail && problem.detail !== problem.title ? h("p", null, problem.detail) : null,
        problem.pointer ? h("p", null, "In the request: ", h("code", null, problem.pointer)) : null,
        problem.hint ? h("p", {class: "hint"}, "What to do: ", problem.hint) : null,
        problem.stderr ? h("details", null, h("summary", null, "The last lines of the worker"), h("pre", null, problem.stderr)) : null,
        h("p", {class: "row"},
            unauthorised ? h("button", {type: "button", class: "primary", onclick: () => askToken()}, "Enter a token") : null,
            retry ? h("button", {type: "button", onclick: retry}, "Try again") : null,
            problem.type?.startsWith("/errors/") ? h("a", {href: address(problem.type)}, "More about this problem") : null,
            problem.requestId ?? problem.request_id
                ? h("span", {class: "faint"}, `request ${problem.requestId ?? problem.request_id}`) : null));
}

// Anything thrown, as a problem.
export function asProblem(error) {
    return error.title ? error : {title: "The page has a bug", detail: String(error?.stack ?? error)};
}
