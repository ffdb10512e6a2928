// Where one is: #/ the list, #/new the form, #/devices what is measured, #/jobs/ID a run; nothing elsewhere. A page is a function
// that draws into <main> and returns what is to be called when one leaves.
import {api} from "./api.js";
import {showDevices} from "./devices.js";
import {fill, h} from "./dom.js";
import {showForm} from "./form.js";
import {showList} from "./list.js";
import {showNothing} from "./nothing.js";
import {showRun} from "./run.js";
import {startTheme} from "./theme.js";
import {startToken, takeTokenFromAddress} from "./token.js";

const main = document.getElementById("main");
let leave = null;
let shown = null;

function pageOf(hash) {
    const [path, query] = hash.replace(/^#/, "").split("?");
    const run = /^\/jobs\/([0-9a-z]+)$/.exec(path);
    if (run)
        return ["run", () => showRun(main, run[1])];
    if (path === "" || path === "/")
        return ["list", () => showList(main, new URLSearchParams(query))];
    if (path === "/devices")
        return ["devices", () => showDevices(main)];
    if (path === "/new")
        return ["new", () => showForm(main, new URLSearchParams(query))];
    return ["nothing", () => showNothing(main, "There is no such page", h("p", null, "Nothing is at ", h("code", null, hash), "."))];
}

function route() {
    if (location.hash === "#main") { // the skip link
        main.focus();
        return;
    }
    const [name, show] = pageOf(location.hash);
    for (const link of document.querySelectorAll("[data-page]"))
        if (link.dataset.page === name)
            link.setAttribute("aria-current", "page");
        else
            link.removeAttribute("aria-current");
    leave?.();
    fill(main);
    if (shown !== null && shown !== name) {
        scrollTo(0, 0);
        main.focus({preventScroll: true});
    }
    shown = name;
    leave = show() ?? null;
}

async function showVersion() {
    try {
        const version = await api("/version");
        document.getElementById("version").textContent = `magisd ${version.version ?? ""}`;
    } catch {
        document.getElementById("version").textContent = "magisd";
    }
}

takeTokenFromAddress();
startTheme(document.getElementById("theme-button"));
startToken(document.getElementById("token-button"));
addEventListener("hashchange", route);
addEventListener("magisd-token", route);
route();
showVersion();
