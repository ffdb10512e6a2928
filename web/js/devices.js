// Devices and their measured timings: what is covered, how old it is, what is doubted, who measures.
import {api} from "./api.js";
import {fill, h} from "./dom.js";
import {ago, count, percent, time} from "./format.js";
import {asProblem, problemCard} from "./problem.js";

const EVERY_MS = 10000;
const SILENT_MS = 90000; // three heartbeats

const NOTHING_MEASURED = ["Nothing has been measured yet: prices are modelled. On a machine with the device: ",
    h("code", null, `magisd agent --server ${location.origin} --device cpu`)];

const when = (ms) => (ms > 0 ? ago(new Date(ms).toISOString()) : "never");

function table(caption, heads, rows, none) {
    if (!rows.length)
        return h("section", {class: "card"}, h("h2", null, caption), h("p", null, none));
    return h("section", {class: "card"}, h("h2", null, caption),
        h("div", {class: "scroll"}, h("table", null,
            h("thead", null, h("tr", null, heads.map((head) => h("th", {scope: "col"}, head)))),
            h("tbody", null, rows))));
}

const software = (key) => Object.entries(key).filter(([name]) => name !== "device").map(([name, value]) => `${name} ${value}`)
    .join(", ");

function classRow(c) {
    const wanted = Math.max(c.wanted, c.operators);
    return h("tr", null,
        h("td", {title: software(c.key)}, c.device, h("br"), h("code", null, c.id)),
        h("td", null, `${count(c.operators)} of ${count(wanted)}`, wanted ? ` (${percent(c.operators / wanted, 0)})` : ""),
        h("td", null, when(c.newest_at)),
        h("td", null, when(c.oldest_at)),
        h("td", null, count(c.drifting)),
        h("td", null, count(c.suspects)),
        h("td", null, count(c.failures)));
}

function agentRow(a) {
    const silent = Date.now() - a.seen_at > SILENT_MS;
    return h("tr", null,
        h("td", null, a.name), h("td", null, a.host), h("td", null, a.class.device),
        h("td", null, silent ? "silent" : a.state || "alive"), h("td", null, when(a.seen_at)), h("td", null, count(a.rows)));
}

function suspectRow(s) {
    return h("tr", null,
        h("td", null, s.device), h("td", null, h("code", null, `${s.op} ${s.signature}`)), h("td", null, time(s.median_s)),
        h("td", null, s.agent), h("td", null, when(s.at)));
}

function profileRow(d) {
    return h("tr", null, h("td", null, d.name), h("td", null, d.source), h("td", null, (d.profile.gpu_names ?? []).join(", ")));
}

function draw(into, devices, agents, suspects) {
    fill(into,
        h("h1", null, "Devices and timings"),
        table("Measured", ["Class of devices", "Operators measured", "Newest", "Oldest", "Drifting", "Suspect", "Not measurable"],
            devices.classes.map(classRow), NOTHING_MEASURED),
        table("Agents", ["Agent", "Host", "Device", "State", "Seen", "Timings"], agents.agents.map(agentRow), "No agent has come yet."),
        table("Suspects", ["Device", "Operator", "Time", "Agent", "Measured"], suspects.timings.map(suspectRow),
            "No timing waits for somebody to agree."),
        table("Profiles", ["Profile", "From", "Used for devices named"], devices.devices.map(profileRow), ""));
}

export function showDevices(main) {
    const into = h("div", {class: "page stack"});
    let timer = null;
    let left = false;
    const load = async () => {
        try {
            const parts = await Promise.all([api("/devices"), api("/agents"), api("/timings?suspect=true&limit=50")]);
            if (!left)
                draw(into, ...parts);
        } catch (error) {
            if (!left)
                fill(into, h("h1", null, "Devices and timings"), problemCard(asProblem(error)));
        }
        if (!left)
            timer = setTimeout(load, EVERY_MS);
    };
    main.append(into);
    load();
    return () => {
        left = true;
        clearTimeout(timer);
    };
}
