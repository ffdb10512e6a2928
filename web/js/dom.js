// Elements without a framework: h("button", {class: "primary", onclick: f}, "Text", child, [more]).
// Text is always set as text, never as markup: names come from graphs that anybody may have posted.

const SVG = "http://www.w3.org/2000/svg";

export function h(tag, props, ...children) {
    const el = document.createElement(tag);
    for (const [key, value] of Object.entries(props ?? {}))
        setProperty(el, key, value);
    append(el, children);
    return el;
}

function setProperty(el, key, value) {
    if (value === null || value === undefined || value === false)
        return;
    if (key.startsWith("on"))
        el.addEventListener(key.slice(2), value);
    else if (key === "class")
        el.className = value;
    else if (key === "style")
        for (const [name, text] of Object.entries(value))
            el.style.setProperty(name, text);
    else if (key === "value" || key === "checked" || key === "selected" || key === "disabled")
        el[key] = value;
    else
        el.setAttribute(key, value === true ? "" : value);
}

export function append(el, children) {
    for (const child of children.flat(Infinity))
        if (child !== null && child !== undefined && child !== false)
            el.append(child);
}

// Pieces with a dot between those that share a line; none hangs at a line's end. `kindOf`: a class by the place.
export function dotted(kind, pieces, kindOf = () => null) {
    return h("span", {class: `${kind} dotted`}, pieces.filter(Boolean).map((piece, at) => h("span", {class: kindOf(at)}, piece)));
}

// A path that is broken behind its dots first.
export function pathWords(path) {
    return path.split(/(?<=\.)/).flatMap((part) => [part, h("wbr")]);
}

export function fill(el, ...children) {
    el.replaceChildren();
    append(el, children);
    return el;
}

const ICONS = {
    sun: "M12 4V2m0 20v-2m8-8h2M2 12h2m13.7-5.7 1.4-1.4M4.9 19.1l1.4-1.4m0-11.4L4.9 4.9m14.2 14.2-1.4-1.4M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8z",
    moon: "M20 14.5A8 8 0 0 1 9.5 4a8 8 0 1 0 10.500 10.500z",
    auto: "M12 3a9 9 0 1 0 0 18zm0 0a9 9 0 0 1 0 18",
    key: "M12 12a4 4 0 1 1-8 0 4 4 0 0 1 8 0zm0 0h9v3.500M17 12v2.500",
    down: "M12 4v11m0 0-4-4m4 4 4-4M5 20h14",
    stop: "M7 7h10v10H7z",
    again: "M19 12a7 7 0 1 1-2-5l2 2m0-4v4h-4",
    trash: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13M10.500 11v5m3-5v5",
    pin: "M12 15v6M8 4h8l-1 6 3 5H6l3-5z",
    copy: "M9 9h10v10H9zM5 15V5h10",
};

export function icon(name) {
    const svg = document.createElementNS(SVG, "svg");
    const path = document.createElementNS(SVG, "path");
    svg.setAttribute("viewBox", "0 0 24 24");
    svg.setAttribute("aria-hidden", "true");
    svg.setAttribute("class", "icon");
    path.setAttribute("d", ICONS[name]);
    svg.append(path);
    return svg;
}

export function toast(text, bad) {
    const el = h("div", {class: bad ? "toast bad" : "toast"}, text);
    document.getElementById("toasts").append(el);
    setTimeout(() => el.remove(), bad ? 8000 : 4000);
}
