// The daemon's interface: JSON in and out, problems (RFC 9457) as exceptions. Paths are relative to
// this file, so that the page works under any prefix a proxy gives it.

const ROOT = new URL("../../", import.meta.url);
const KEY = "magisd-token";

export const token = {
    get: () => sessionStorage.getItem(KEY) ?? "",
    set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

export class Problem extends Error {
    constructor(status, body) {
        super(body.detail || body.title || `status ${status}`);
        Object.assign(this, {status, title: body.title, detail: body.detail, hint: body.hint, pointer: body.pointer,
            type: body.type, requestId: body.request_id, replacedBy: body.replaced_by});
    }
}

export function address(path) {
    return new URL(path.replace(/^\//, ""), ROOT).href;
}

async function problemOf(response) {
    let body;
    try {
        body = await response.json();
    } catch {
        body = {title: response.statusText || `status ${response.status}`};
    }
    return new Problem(response.status, body);
}

export async function send(path, {method = "GET", json, body, headers = {}, signal} = {}) {
    const all = {Accept: "application/json", ...headers};
    if (token.get())
        all.Authorization = `Bearer ${token.get()}`;
    if (json !== undefined)
        all["Content-Type"] = "application/json";
    let response;
    try {
        response = await fetch(address(path), {method, headers: all, body: json === undefined ? body : JSON.stringify(json),
            signal, cache: "no-store"});
    } catch (error) {
        if (error.name === "AbortError")
            throw error;
        throw new Problem(0, {title: "The daemon does not answer", detail: "There was no answer to the request.",
            hint: "Is magisd still running? The page goes on by itself once it is back."});
    }
    if (!response.ok)
        throw await problemOf(response);
    return response;
}

export async function api(path, options) {
    const response = await send(path, options);
    return response.status === 204 ? null : response.json();
}

// A plain link when there is no token; with one the file is fetched and handed over.
export async function download(path, name) {
    const response = await send(path, {headers: {Accept: "*/*"}});
    const url = URL.createObjectURL(await response.blob());
    const link = document.createElement("a");
    link.href = url;
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(url), 10000);
}
