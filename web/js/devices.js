// Devices and their measured timings: what is covered, how old it is, what is doubted, who measures.
import {api} from "./api.js";
import {copyable} from "./copy.js";
import {fill, h} from "./dom.js";
import {ago, bytes, count, percent, rate, time} from "./format.js";
import {asProblem, problemCard} from "./problem.js";

const EVERY_MS = 10000;
const SILENT_MS = 90000; // three heartbeats

const when = (ms) => (ms > 0 ? ago(new Date(ms).toISOString()) : "never");
const numeric = (text) => h("td", {class: "num"}, text);

// heads: names of columns, those of numbers as [name].
function table(caption, about, heads, rows) {
    return h("section", {class: "card"}, h("div", {class: "card-head"}, h("h2", null, caption), h("span", {class: "faint"}, about)),
        h("div", {class: "scroll"}, h("table", null,
            h("thead", null, h("tr", null, heads.map((head) => h("th", {scope: "col", class: Array.isArray(head) ? "num" : null}, head)))),
            h("tbody", null, rows))));
}

const shell = (text) => copyable(text, "the lines for a shell");

// A processor has no profile of its own until one has made it.
function howToMeasure() {
    const server = new URL("../", location.href.split("#")[0]).href.replace(/\/$/, "");
    return h("section", {class: "card stack"}, h("h2", null, "Nothing has been measured yet"),
        h("p", {class: "words"}, "Times are modelled from the figures in the profiles. An agent beside a device measures what runs "
            + "want, and from then on their times come from the device itself."),
        h("div", null, h("p", null, "On a machine with a card of one of the profiles:"),
            shell(`magisd agent --server ${server} --device cuda:0`)),
        h("details", null, h("summary", null, "Another card, or a processor"),
            h("p", null, "Runs can ask for it once it has a profile; this makes one of the processor, called cpu:"),
            shell(`magisd measure --calibrate --device cpu -o cpu.json\n`
                + `curl -X PUT ${server}/devices/cpu -H 'content-type: application/json' -d @cpu.json\n`
                + `magisd agent --server ${server} --device cpu`)));
}

const software = (key) => Object.entries(key).filter(([name]) => name !== "device").map(([name, value]) => `${name} ${value}`)
    .join(", ");

function classRow(c) {
    return h("tr", null,
        h("td", {title: software(c.key)}, c.device, h("small", {class: "faint block"}, h("code", null, c.id))),
        numeric(count(c.operators)),
        numeric(c.wanted ? `${count(c.settled)} of ${count(c.wanted)} (${percent(c.settled / c.wanted, 0)})` : "–"),
        h("td", null, when(c.newest_at)), h("td", null, when(c.oldest_at)),
        numeric(count(c.drifting)), numeric(count(c.suspects)), numeric(count(c.failures)));
}

function agentRow(a) {
    const ended = a.state === "ended", silent = ended || Date.now() - a.seen_at > SILENT_MS;
    return h("tr", null,
        h("td", null, a.name), h("td", null, a.host), h("td", null, a.class.device),
        h("td", null, h("span", {class: `badge ${silent ? "dim" : "live"}`}, ended ? "ended" : silent ? "silent" : a.state || "alive")),
        h("td", null, when(a.seen_at)), numeric(count(a.rows)));
}

function suspectRow(s) {
    return h("tr", null,
        h("td", null, s.device), h("td", {class: "name"}, `${s.op} ${s.signature}`), numeric(time(s.median_s)),
        numeric(s.model_s ? time(s.model_s) : "no profile names it"), h("td", null, s.agent), h("td", null, when(s.at)));
}

function profileRow(d) {
    const {peak_flops: peak = {}, mem_bw: bandwidth, gpu_names: names = []} = d.profile;
    return h("tr", null, h("td", null, h("strong", null, d.name), h("small", {class: "faint block"}, d.source)),
        h("td", null, names.join(", ") || "–"), numeric(bytes(d.memory_bytes)), numeric(rate(peak.f32, "FLOP/s")),
        numeric(rate(peak.bf16, "FLOP/s")), numeric(rate(bandwidth, "B/s")));
}

const heading = () => h("div", {class: "page-head"}, h("h1", null, "Devices and timings"));

function draw(into, {devices, classes}, {agents}, {timings: suspects}) {
    const measured = classes.some((c) => c.rows > 0 || c.wanted > 0);
    fill(into, heading(),
        measured ? table("Measured", "Devices whose timings are known", ["Class of devices", ["Operators"], ["Wanted, of these settled"], "Newest", "Oldest",
            ["Drifting"], ["Suspect"], ["Not measurable"]], classes.map(classRow)) : howToMeasure(),
        agents.length ? table("Agents", "Who measures", ["Agent", "Host", "Device", "State", "Seen", ["Timings"]], agents.map(agentRow)) : null,
        suspects.length ? table("Suspects", "They wait until another agent, or the same on another day, agrees",
            ["Device", "Operator", ["Time"], ["By the model"], "Agent", "Measured"], suspects.map(suspectRow)) : null,
        table("Profiles", "What a run can ask for", ["Profile", "Devices of this name", ["Memory"], ["f32"], ["bf16"], ["Bandwidth"]],
            devices.map(profileRow)),
        measured && !agents.length ? h("p", {class: "faint"}, "No agent has come yet.") : null);
}

export function showDevices(main) {
    const into = h("div", {class: "page stack"}, heading(), h("p", {class: "faint"}, "Loading…"));
    let timer = null;
    let left = false;
    let seen = "";
    const load = async () => {
        try {
            const parts = await Promise.all([api("/devices"), api("/agents"), api("/timings?suspect=true&limit=50")]);
            const text = JSON.stringify(parts);
            const reading = into.contains(document.activeElement) || into.querySelector("details[open]");
            if (!left && (text !== seen && !(seen && reading))) {
                draw(into, ...parts);
                seen = text;
            }
        } catch (error) {
            if (!left)
                fill(into, heading(), problemCard(asProblem(error)));
            seen = "";
        }
        if (!left)
            timer = setTimeout(load, EVERY_MS);
    };
    document.title = "Devices · magisd";
    main.append(into);
    load();
    return () => {
        left = true;
        clearTimeout(timer);
    };
}
