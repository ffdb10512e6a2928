// The access token: by this form, or in the address as /ui/#token=... (taken out of it at once).
// Kept for the tab's session only.
import {api, token} from "./api.js";
import {fill, h, icon, toast} from "./dom.js";

export function takeTokenFromAddress() {
    const match = /^#token=([^&]*)/.exec(location.hash);
    if (!match)
        return;
    token.set(decodeURIComponent(match[1]));
    history.replaceState(null, "", `${location.pathname}#/`);
}

async function store(text) {
    token.set(text);
    dispatchEvent(new Event("magisd-token"));
    if (!text) {
        toast("Token forgotten");
        return;
    }
    try {
        const who = await api("/whoami");
        toast(`Signed in as ${who.name || "nobody"} (${who.role})`);
    } catch (error) {
        toast(error.detail ?? String(error), true);
    }
}

export function askToken() {
    const input = h("input", {type: "password", id: "token-input", autocomplete: "off", spellcheck: "false", value: token.get()});
    const dialog = h("dialog", {"aria-labelledby": "token-title"},
        h("form", {method: "dialog", onsubmit: () => store(input.value.trim())},
            h("h2", {id: "token-title"}, "Access token"),
            h("p", null, "Needed only if this daemon has tokens (", h("code", null, "magisd token add NAME --role submit"),
                "). It stays in this tab and is forgotten when the tab is closed."),
            h("label", {class: "field"}, h("span", null, "Token"), input),
            h("p", {class: "row end"},
                h("button", {type: "button", onclick: () => dialog.close()}, "Cancel"),
                h("button", {type: "submit", class: "primary"}, "Use it"))));
    dialog.addEventListener("close", () => dialog.remove());
    document.body.append(dialog);
    dialog.showModal();
}

export function startToken(button) {
    fill(button, icon("key"));
    button.title = "Access token";
    button.addEventListener("click", askToken);
}
