// Light, dark, or as the system says (the default). Charts are told, since they draw on canvases.
import {fill, icon} from "./dom.js";

const KEY = "magisd-theme";
const ORDER = ["auto", "light", "dark"];
const LOOK = {auto: ["auto", "Colours: as the system"], light: ["sun", "Colours: light"], dark: ["moon", "Colours: dark"]};
const listeners = new Set();

function stored() {
    const value = localStorage.getItem(KEY);
    return ORDER.includes(value) ? value : "auto";
}

function apply(theme, button) {
    if (theme === "auto")
        delete document.documentElement.dataset.theme;
    else
        document.documentElement.dataset.theme = theme;
    fill(button, icon(LOOK[theme][0]));
    button.setAttribute("aria-label", LOOK[theme][1]);
    button.title = LOOK[theme][1];
    for (const listener of listeners)
        listener();
}

export function startTheme(button) {
    apply(stored(), button);
    button.addEventListener("click", () => {
        const next = ORDER[(ORDER.indexOf(stored()) + 1) % ORDER.length];
        localStorage.setItem(KEY, next);
        apply(next, button);
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => apply(stored(), button));
}

export function onTheme(listener) {
    listeners.add(listener);
    return () => listeners.delete(listener);
}

// The value of a custom property of the stylesheet.
export function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
