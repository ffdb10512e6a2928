// Lines to take over into a shell or a script, with a button that copies them.
import {h, icon, toast} from "./dom.js";

// The clipboard is there for addresses that the browser trusts; elsewhere the lines are selected.
async function copy(text, pre) {
    try {
        await navigator.clipboard.writeText(text);
        toast("Copied");
    } catch {
        getSelection().selectAllChildren(pre);
        toast("Selected: copy it with the keyboard");
    }
}

export function copyable(text, what) {
    const pre = h("pre", {tabindex: 0}, text);
    return h("div", {class: "copyable"}, pre, h("button", {type: "button", class: "icon-button", title: "Copy", "aria-label": `Copy ${what}`,
        onclick: () => copy(text, pre)}, icon("copy")));
}
