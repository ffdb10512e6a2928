// An address that leads to nothing: says so, and where to go from there.
import {fill, h} from "./dom.js";

export function showNothing(main, title, words) {
    document.title = `${title} · magisd`;
    fill(main, h("h1", null, title), h("section", {class: "card stack", id: "nothing"}, words,
        h("p", {class: "row"}, h("a", {class: "button primary", href: "#/"}, "All runs"), h("a", {class: "button", href: "#/new"}, "New run"))));
}
