// A new run: a network of the zoo or a graph file, the device, a limit, a budget.
import {api, Problem, send} from "./api.js";
import {fill, h, toast} from "./dom.js";
import {bytes, plural, time} from "./format.js";
import {asProblem, problemCard} from "./problem.js";
import {packRequest, readRequest} from "./request.js";
import {groupHot} from "./words.js";

const LOSSES = [["squared", "sum of squares"], ["mse", "mean squared error"], ["cross_entropy", "cross entropy"],
    ["sum", "sum of the output"], ["output", "the output itself"]];
const OPTIMIZERS = [["sgd", "SGD"], ["momentum", "SGD with momentum"], ["adam", "Adam"], ["adamw", "AdamW"], ["none", "none (gradients only)"]];
const TECHNIQUES = [["fission", "Split operators into parts"], ["remat", "Compute again"], ["swap", "Park in host memory"],
    ["reorder", "Change the order"], ["rewrite", "Rewrite"]];

function field(label, control, hint, pointer) {
    return h("label", {class: "field", "data-pointer": pointer ?? null}, h("span", null, label), control,
        hint ? h("small", {class: "faint"}, hint) : null);
}

function options(list, chosen) {
    return list.map(([value, text]) => h("option", {value, selected: value === chosen}, text));
}

function radio(name, value, label, checked, onchange) {
    return h("label", {class: "choice"}, h("input", {type: "radio", name, value, checked, onchange}), h("span", null, label));
}

// ---- the network ----

// The words a parameter may take, where its help lists them: "a: ...; b: ..." or "...: a, b or c".
function wordsOf({default: fallback, help}) {
    if (fallback === "true" || fallback === "false")
        return ["true", "false"];
    const explained = help.split("; ").map((part) => /^([\w-]+): /.exec(part)?.[1]);
    const listed = (help.split(": ")[1] ?? "").split(/, | or /);
    return [explained, listed].find((words) => words.length > 1 && words.includes(fallback)) ?? null;
}

function parameterField(parameter, given) {
    const numeric = /^-?\d+(\.\d+)?$/.test(parameter.default);
    const words = numeric ? null : wordsOf(parameter);
    const name = `zoo.${parameter.name}`;
    const control = words
        ? h("select", {name, "data-default": parameter.default}, options(words.map((word) => [word, word]), given ?? parameter.default))
        : h("input", {name, value: given ?? parameter.default, "data-default": parameter.default, inputmode: numeric ? "numeric" : null,
            autocomplete: "off", spellcheck: "false"});
    return field(parameter.name, control, parameter.help, `/zoo/${parameter.name}`);
}

// `query` names the network and its parameters: #/new?model=mlp&batch=4096
function zooPart(networks, query) {
    const chosen = query.get("model") ?? "bert-base";
    const box = h("div", {class: "grid"});
    const select = h("select", {name: "model", id: "model", onchange: () => draw()},
        networks.map((n) => h("option", {value: n.name, selected: n.name === chosen}, n.title ? `${n.name} – ${n.title}` : n.name)));
    const draw = () => {
        const network = networks.find((n) => n.name === select.value) ?? networks[0];
        fill(box, network.parameters.map((p) => parameterField(p, network.name === chosen ? query.get(p.name) : null)));
    };
    draw();
    return h("div", {class: "stack", id: "from-zoo"}, field("Network", select, null, "/zoo/model"), box);
}

function filePart(form) {
    const about = h("p", {class: "faint"}, "An ONNX model; or JSON: a graph (magis-graph/1), a training step captured by magis_capture.py (magis-aten/1).");
    const symbols = field("Sizes of symbols", h("input", {name: "symbols", autocomplete: "off", placeholder: "batch=32, seq=128"}),
        "What the model leaves open; the answer names what is missing", "/symbols");
    const input = h("input", {type: "file", id: "graph-file", accept: ".onnx,.json,application/json", onchange: () => take(input.files[0])});
    symbols.hidden = true;
    const zone = h("label", {class: "drop", for: "graph-file", "data-pointer": "/graph"},
        h("strong", null, "Drop a model or graph here"), h("span", null, "or choose a file"), input, about);
    function refuse(why) {
        form.graph = null;
        symbols.hidden = true;
        zone.classList.remove("filled");
        about.textContent = why;
    }
    async function take(file) {
        if (!file)
            return;
        const head = await file.slice(0, 512).text();
        const json = /\.json$/i.test(file.name) || head.trimStart().startsWith("{");
        if (!json && !/[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]/.test(head)) {
            refuse(`${file.name}: this is neither JSON nor an ONNX model`);
            return;
        }
        symbols.hidden = json;
        if (!symbols.hidden) {
            form.graph = {file, name: file.name};
            about.textContent = `${file.name}: ${bytes(file.size)}, read by the daemon`;
            zone.classList.add("filled");
            return;
        }
        try {
            const graph = JSON.parse(await file.text());
            form.graph = {text: graph, name: file.name};
            about.textContent = `${file.name}: ${plural(graph.ops?.length ?? graph.nodes?.length ?? 0, graph.nodes ? "call" : "operator")}, ${bytes(file.size)}`;
            zone.classList.add("filled");
        } catch (error) {
            refuse(`${file.name} is not JSON: ${error.message}`);
        }
    }
    zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
    zone.addEventListener("dragleave", () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
        event.preventDefault();
        zone.classList.remove("over");
        take(event.dataTransfer.files[0]);
    });
    return h("div", {class: "stack", id: "from-file", hidden: true}, zone, symbols);
}

function networkCard(networks, query, form) {
    const zoo = zooPart(networks, query);
    const file = filePart(form);
    const pick = (event) => {
        zoo.hidden = event.target.value !== "zoo";
        file.hidden = !zoo.hidden;
    };
    const training = h("div", {class: "grid", id: "training"},
        field("Loss", h("select", {name: "loss"}, options(LOSSES, "mse")), null, "/training/loss"),
        field("Optimizer", h("select", {name: "optimizer"}, options(OPTIMIZERS, "sgd")), null, "/training/optimizer"));
    const trains = h("input", {type: "checkbox", name: "train", checked: true, onchange: () => { training.hidden = !trains.checked; }});
    return h("fieldset", {class: "card"}, h("legend", null, "Network"),
        h("div", {class: "choices"}, radio("source", "zoo", "Built-in network", true, pick), radio("source", "graph", "A model or graph file", false, pick)),
        zoo, file,
        h("label", {class: "choice"}, trains, h("span", null, "Derive the training step (loss, gradients, update)")), training);
}

// ---- where and how far ----

const LIMITS = [
    ["none", "No limit: find the whole range of memory against time", null],
    ["memory_bytes", "It has to fit the memory of a card", ["GB", "", "1 GB = 10⁹ bytes; what the driver and libraries keep for themselves is taken off", "0.1"]],
    ["memory_ratio", "At most a share of the memory it needs now", ["%", "50", "50 % means half of what an eager framework needs", "1"]],
    ["latency_ratio", "At most so much more time for a step", ["%", "10", "10 % means steps that take at most 1.10 times as long", "0.5"]],
];
const NO_LIMIT = "Of the range, the smallest plan that takes at most 10 % longer is shown first: little enough that few would mind.";

function limitCard(devices) {
    const device = h("select", {name: "device", id: "device", onchange: () => suggest()}, devices.map((d) =>
        h("option", {value: d.name, selected: d.name === "rtx3090"}, `${d.name} (${bytes(d.memory_bytes)})`)));
    const amount = h("input", {name: "amount", type: "number", min: 0, step: "any"});
    const unit = h("span", {class: "unit"});
    const hint = h("small", {class: "faint"});
    const box = h("label", {class: "field inset", hidden: true, "data-pointer": "/limit"}, h("span", {class: "sr"}, "Limit"),
        h("span", {class: "with-unit"}, amount, unit), hint);
    const none = h("small", {class: "faint inset"}, NO_LIMIT);
    const choices = h("div", {class: "choices column", role: "radiogroup", "aria-labelledby": "limit-title"});
    let kind = "none";
    const suggest = () => {
        const memory = devices.find((d) => d.name === device.value)?.memory_bytes;
        if (kind === "memory_bytes" && memory)
            amount.value = (memory / 2e9).toFixed(1);
    };
    const pick = (event) => {
        kind = event.target.value;
        const about = LIMITS.find(([value]) => value === kind)[2];
        box.hidden = !about;
        none.hidden = !box.hidden;
        event.target.closest("label").after(about ? box : none);
        amount.required = !!about;
        if (!about)
            return;
        [unit.textContent, amount.value, hint.textContent] = about;
        suggest();
    };
    fill(choices, LIMITS.map(([value, label], i) => radio("limit", value, label, i === 0, pick)), box);
    choices.firstChild.after(none);
    return h("fieldset", {class: "card"}, h("legend", null, "Device and limit"),
        field("Device", device, "Whose times are predicted, and whose memory is meant", "/device"),
        h("div", {class: "stack tight"}, h("h3", {id: "limit-title"}, "Limit"), choices));
}

function budgetCard() {
    const amount = h("input", {name: "budget", type: "number", min: 0, step: "any", value: "20", required: true});
    const unit = h("span", {class: "unit"}, "s");
    const hint = h("small", {class: "faint"}, "More time finds better plans; you can cancel at any moment and keep what is found.");
    const pick = (event) => {
        const seconds = event.target.value === "seconds";
        amount.value = seconds ? "20" : "20000";
        unit.textContent = seconds ? "s" : "states";
        hint.textContent = seconds ? "More time finds better plans; you can cancel at any moment and keep what is found."
            : "The same number and seed give the same plans, bit for bit, on any machine.";
    };
    return h("fieldset", {class: "card"}, h("legend", null, "Search"),
        h("div", {class: "choices"}, radio("unit", "seconds", "Seconds", true, pick), radio("unit", "evaluations", "Evaluated states", false, pick)),
        h("div", {class: "grid"},
            h("label", {class: "field", "data-pointer": "/budget"}, h("span", null, "Budget"), h("span", {class: "with-unit"}, amount, unit), hint),
            field("Seed", h("input", {name: "seed", type: "number", min: 0, step: 1, value: "1"}), null, "/budget/seed")),
        h("details", null, h("summary", null, "More options"), h("div", {class: "stack"},
            field("Name of the run", h("input", {name: "name", maxlength: 200, autocomplete: "off"}), null, "/name"),
            h("div", {class: "choices column", role: "group", "aria-label": "Means that may be used"}, TECHNIQUES.map(([name, label]) =>
                h("label", {class: "choice"}, h("input", {type: "checkbox", name: `technique.${name}`, checked: true}), h("span", null, label)))),
            h("label", {class: "choice"}, h("input", {type: "checkbox", name: "exact"}),
                h("span", null, "Results equal bit for bit (no splitting of sums)")),
            h("label", {class: "choice"}, h("input", {type: "checkbox", name: "fresh"}),
                h("span", null, "Search anew, even if the same was asked before")))));
}

// ---- sending ----

// What is wrong is said at its field too; answers the field, null where no place or none of the form is to blame.
function markField(form, problem) {
    for (const el of form.querySelectorAll(".wrong"))
        el.classList.remove("wrong");
    form.querySelector("#complaint")?.remove();
    form.querySelector("[aria-describedby=complaint]")?.removeAttribute("aria-describedby");
    const marked = [...form.querySelectorAll("[data-pointer]")].filter((el) => problem.pointer?.startsWith(el.dataset.pointer))
        .sort((a, b) => b.dataset.pointer.length - a.dataset.pointer.length)[0];
    if (!marked)
        return null;
    marked.classList.add("wrong");
    const control = marked.querySelector("input, select");
    const said = problem.detail ?? problem.title ?? "";
    (control.closest(".with-unit") ?? control).after(h("small", {class: "complaint", id: "complaint"}, `${said.charAt(0).toUpperCase()}${said.slice(1)}`));
    control.setAttribute("aria-describedby", "complaint");
    control.focus();
    return marked;
}

function estimateCard(answer) {
    const groups = groupHot(answer).slice(0, 6);
    return h("section", {class: "card", id: "estimate"}, h("h2", null, "As it is"),
        h("p", null, `${answer.graph.name}: ${plural(answer.graph.operators, "operator")}; an eager framework needs `,
            h("strong", null, bytes(answer.original.peak_bytes)), ` and ${time(answer.original.latency_s)} a step on ${answer.device}. `,
            `No plan can need less than ${bytes(answer.lower_bound_bytes)}.`),
        h("p", {class: "faint"}, "Alive at the peak: ",
            groups.map((g) => `${g.name}${g.count > 1 ? ` (${g.count})` : ""} ${bytes(g.bytes)}`).join(", "),
            answer.hot_groups.length > groups.length ? " …" : "."));
}

export function showForm(main, query) {
    const form = h("form", {class: "stack", id: "submit-form", novalidate: false});
    const result = h("div", {class: "stack", "aria-live": "polite"});
    const gone = new AbortController();
    document.title = "New run · magisd";

    async function act(button, work) {
        button.disabled = true;
        button.setAttribute("aria-busy", "true");
        try {
            await work(readRequest(form));
        } catch (error) {
            if (error.name === "AbortError")
                return;
            const problem = error instanceof Problem ? error : asProblem(error);
            fill(result, problemCard(problem));
            (markField(form, problem) ?? result).scrollIntoView({block: "nearest"});
        } finally {
            button.disabled = false;
            button.removeAttribute("aria-busy");
        }
    }

    async function submit(request) {
        const response = await send("/optimize", {method: "POST", ...packRequest(form, request), signal: gone.signal});
        const job = await response.json();
        toast("Submitted");
        location.hash = `#/jobs/${job.id}`;
    }

    async function estimate(request) {
        const answer = await api("/estimate", {method: "POST", ...packRequest(form, request), signal: gone.signal});
        fill(result, estimateCard(answer));
    }

    function draw(networks, devices) {
        const start = h("button", {type: "submit", class: "primary", id: "start"}, "Start");
        const look = h("button", {type: "button", onclick: () => form.reportValidity() && act(look, estimate)}, "Estimate only");
        fill(form, h("div", {class: "columns"}, h("div", {class: "stack"}, networkCard(networks, query, form)),
            h("div", {class: "stack"}, limitCard(devices), budgetCard(), h("p", {class: "row"}, start, look), result)));
        form.addEventListener("submit", (event) => { event.preventDefault(); act(start, submit); });
    }

    async function load() {
        try {
            const [zoo, devices] = await Promise.all([api("/zoo"), api("/devices")]);
            draw(zoo.networks, devices.devices);
        } catch (error) {
            fill(form, problemCard(asProblem(error), load));
        }
    }

    fill(main, h("div", {class: "page-head"}, h("h1", null, "New run")), form);
    load();
    return () => gone.abort();
}
