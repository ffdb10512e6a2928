// The form's fields as a request (POST /optimize).
import {Problem} from "./api.js";

function zooOf(form, data) {
    const zoo = {model: data.get("model")};
    for (const el of form.querySelectorAll("[name^='zoo.']")) {
        const text = el.value.trim();
        if (text === el.dataset.default || text === "")
            continue;
        const name = el.name.slice(4);
        zoo[name] = /^-?\d+$/.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : text;
    }
    return zoo;
}

function sourceOf(form, data) {
    if (data.get("source") === "zoo")
        return {zoo: zooOf(form, data)};
    if (!form.graph)
        throw new Problem(422, {title: "A graph is missing", detail: "No graph file was chosen.", pointer: "/graph",
            hint: "Drop an ONNX model or a JSON graph on the field, or take a built-in network."});
    return form.graph.file ? symbolsOf(data) : {graph: form.graph.text};
}

// "batch=32, seq=128"
function symbolsOf(data) {
    const text = data.get("symbols")?.trim();
    if (!text)
        return {};
    const pairs = text.split(/[,\s]+/).map((pair) => pair.split("="));
    const wrong = pairs.find(([name, size]) => !name || !/^\d+$/.test(size ?? ""));
    if (wrong)
        throw new Problem(422, {title: "A size is wrong", detail: `"${wrong.join("=")}" is no name=size.`, pointer: "/symbols"});
    return {symbols: Object.fromEntries(pairs.map(([name, size]) => [name, Number(size)]))};
}

// How a request goes out: a model's file travels beside it.
export function packRequest(form, request) {
    const file = new FormData(form).get("source") === "graph" ? form.graph?.file : null;
    if (!file)
        return {json: request};
    const body = new FormData();
    body.append("request", JSON.stringify(request));
    body.append("graph", file);
    return {body};
}

function limitOf(data) {
    const kind = data.get("limit");
    const amount = Number(data.get("amount"));
    if (kind === "memory_bytes")
        return {memory_bytes: Math.round(amount * 1e9)};
    if (kind === "memory_ratio")
        return {memory_ratio: amount / 100};
    return kind === "latency_ratio" ? {latency_ratio: 1 + amount / 100} : null;
}

function techniquesOf(form) {
    const off = [...form.querySelectorAll("[name^='technique.']")].filter((el) => !el.checked);
    return off.length ? Object.fromEntries(off.map((el) => [el.name.slice(10), false])) : null;
}

export function readRequest(form) {
    const data = new FormData(form);
    const request = {...sourceOf(form, data), device: data.get("device")};
    const budget = {seed: Number(data.get("seed") || 1)};
    budget[data.get("unit")] = Number(data.get("budget"));
    request.budget = budget;
    if (data.get("train"))
        request.training = {loss: data.get("loss"), optimizer: data.get("optimizer")};
    const limit = limitOf(data);
    if (limit)
        request.limit = limit;
    const techniques = techniquesOf(form);
    if (techniques)
        request.techniques = techniques;
    const name = data.get("name")?.trim() || (request.zoo ? "" : form.graph.name.replace(/\.(json|onnx)$/, ""));
    if (name)
        request.name = name;
    if (data.get("exact"))
        request.numerics = "exact";
    if (data.get("fresh"))
        request.fresh = true;
    return request;
}
