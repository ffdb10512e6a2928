// How a plan is put to use: a captured step runs by it in PyTorch; of others a shell makes what can be run.
import {address, token} from "./api.js";
import {copyable} from "./copy.js";
import {h} from "./dom.js";

function fetchLine(path, file) {
    const key = token.get() ? ' -H "Authorization: Bearer $MAGISD_TOKEN"' : "";
    return `curl -fs${key} ${address(path)} -o ${file}`;
}

const planLine = (id, plan) => fetchLine(`/jobs/${id}/plans/${plan}`, "plan.json");

function inTorch(id, plan) {
    const files = [planLine(id, plan), ...["magis_apply.py", "magis_capture.py"].map((file) => fetchLine(`/clients/${file}`, file))];
    return [h("p", null, "Beside the script whose step was captured, get the plan and what runs it:"),
        copyable(files.join("\n"), "the lines for a shell"),
        h("p", null, "In the script, before the first step; ", h("code", null, "step(…)"), " is then called as before:"),
        copyable('import magis_apply\nstep = magis_apply.load("plan.json")(step)', "the lines for Python")];
}

function inShell(id, plan, formats) {
    const made = formats.filter(({format, available}) => available && format !== "json").map(({format, extension}) =>
        `magisd export graph.json plan.json --format ${format} -o plan.${extension}`);
    return [h("p", null, "Get graph and plan, have the plan checked once more, and make of it what the buttons above give:"),
        copyable([fetchLine(`/jobs/${id}/graph`, "graph.json"), planLine(id, plan), "magisd check graph.json plan.json", ...made].join("\n"),
            "the lines for a shell")];
}

// `formats`: in which the plan is or is not to be had, in the order of the buttons.
export function howToApply(id, plan, formats, captured) {
    const torch = captured && plan !== "original" && formats.some(({format, available}) => available && format === "json");
    return h("details", {class: "apply", open: torch}, h("summary", null, torch ? "Apply it in PyTorch" : "From a shell"),
        torch ? inTorch(id, plan) : inShell(id, plan, formats));
}
