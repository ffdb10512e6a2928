// The list of runs: searched and filtered by the daemon, a page at a time, refreshed while anything runs.
import {api} from "./api.js";
import {isEnded, labelChips, stateBadge, STATES, titleOf} from "./badge.js";
import {dotted, fill, h} from "./dom.js";
import {ago, bytes, change, moment, time} from "./format.js";
import {asProblem, problemCard} from "./problem.js";

const PAGE = 25;
const REFRESH_MS = 2500;

function saving(job) {
    const ratio = job.best?.memory_ratio;
    if (ratio === null || ratio === undefined)
        return h("span", {class: "faint"}, "–");
    const width = `${Math.max(2, Math.min(100, ratio * 100)).toFixed(1)}%`;
    return h("span", {class: "saving"},
        h("span", {class: "saving-bar", "aria-hidden": "true"}, h("span", {style: {width}})),
        h("span", {class: "num"}, change(ratio)));
}

function progressOf(job) {
    if (job.state !== "running" && job.state !== "cancelling")
        return null;
    return h("progress", {class: "thin", max: 1, value: job.progress?.fraction ?? 0, "aria-label": "progress"});
}

function row(job) {
    const href = `#/jobs/${job.id}`;
    return h("tr", {onclick: (event) => event.target.closest("a, button") || (location.hash = href)},
        h("td", {class: "run"}, h("a", {href}, titleOf(job)),
            h("span", {class: "sub"}, dotted("faint", [titleOf(job) !== job.network && job.network, job.id]), labelChips(job))),
        h("td", {class: "state"}, stateBadge(job), progressOf(job)),
        h("td", {"data-label": "Device"}, job.device ?? "–"),
        h("td", {class: "num", "data-label": "Original"}, bytes(job.original?.peak_bytes)),
        h("td", {class: "num", "data-label": "Best peak"}, h("strong", null, bytes(job.best?.peak_bytes))),
        h("td", {"data-label": "Memory"}, saving(job)),
        h("td", {class: "num", "data-label": "Step time"}, job.best ? change(job.best.latency_ratio) : "–"),
        h("td", {class: "faint", "data-label": "Created", title: moment(job.created_at)}, h("span", {class: "created"}, ago(job.created_at),
            job.progress?.elapsed_s ? h("small", null, `${time(job.progress.elapsed_s)} of search`) : null)));
}

function table(jobs) {
    const heads = ["Run", "State", "Device", "Original", "Best peak", "Memory", "Step time", "Created"];
    return h("div", {class: "scroll"}, h("table", {class: "runs"},
        h("thead", null, h("tr", null, heads.map((text, i) =>
            h("th", {scope: "col", class: [3, 4, 6].includes(i) ? "num" : null}, text)))),
        h("tbody", null, jobs.map(row))));
}

function welcome() {
    return h("section", {class: "card welcome"},
        h("h2", null, "No runs yet"),
        h("p", null, "magisd takes a network and finds out how to run a training step of it in less memory: what to split, "
            + "what to compute again, what to park in host memory, and in which order. You get the whole range of trade-offs "
            + "between memory and time, and a checked plan for each."),
        h("p", {class: "row"}, h("a", {class: "button primary", href: "#/new"}, "Start a first run"),
            h("a", {class: "button", href: "#/new?model=mlp&batch=4096&layers=12"}, "Try a small one (mlp)")));
}

function addressOf(state, cursor) {
    const query = new URLSearchParams({limit: PAGE});
    for (const key of ["q", "state", "sort"])
        if (state[key])
            query.set(key, state[key]);
    if (cursor)
        query.set("cursor", cursor);
    return `/jobs?${query}`;
}

export function showList(main, query) {
    const state = {q: query.get("q") ?? "", state: query.get("state") ?? "", sort: query.get("sort") ?? ""};
    const cursors = [null];
    const body = h("div", {id: "runs", "aria-live": "off"}, h("p", {class: "faint"}, "Loading…"));
    let timer = null;
    let gone = false;
    let turn = 0;

    const search = h("input", {type: "search", id: "q", placeholder: "Name, id, network or label", value: state.q,
        oninput: () => { clearTimeout(timer); timer = setTimeout(() => change({q: search.value}), 250); }});
    const filter = h("select", {id: "state", onchange: () => change({state: filter.value})},
        h("option", {value: ""}, "Any state"), STATES.map((name) => h("option", {value: name, selected: name === state.state}, name)));
    const sort = h("select", {id: "sort", onchange: () => change({sort: sort.value})},
        [["", "Newest first"], ["saving", "Largest saving"], ["peak", "Smallest peak"], ["duration", "Duration"]]
            .map(([value, text]) => h("option", {value, selected: value === state.sort}, text)));

    function change(members) {
        Object.assign(state, members);
        const kept = new URLSearchParams(Object.entries(state).filter(([, value]) => value));
        history.replaceState(null, "", `#/${kept.size ? `?${kept}` : ""}`);
        cursors.splice(0, cursors.length, null);
        load();
    }

    function turnPage(cursor) {
        if (cursor)
            cursors.push(cursor);
        else
            cursors.pop();
        load();
    }

    function draw(answer) {
        const first = cursors.length === 1;
        if (answer.jobs.length === 0) {
            fill(body, first && !state.q && !state.state ? welcome()
                : h("p", {class: "card faint"}, "Nothing matches. Try another word or state."));
            return;
        }
        fill(body, table(answer.jobs),
            first && !answer.next ? null : h("nav", {class: "row pager", "aria-label": "Pages of the list"},
                h("button", {type: "button", disabled: first, onclick: () => turnPage(null)}, "← Newer"),
                h("span", {class: "faint"}, `Page ${cursors.length}`),
                h("button", {type: "button", disabled: !answer.next, onclick: () => turnPage(answer.next)}, "Older →")));
    }

    async function load() {
        const mine = ++turn;
        clearTimeout(timer);
        try {
            const answer = await api(addressOf(state, cursors.at(-1)));
            if (gone || mine !== turn)
                return;
            if (!body.contains(document.activeElement) || document.activeElement === document.body)
                draw(answer);
            if (answer.jobs.some((job) => !isEnded(job)))
                timer = setTimeout(load, REFRESH_MS);
        } catch (error) {
            if (gone || mine !== turn)
                return;
            fill(body, problemCard(asProblem(error), load));
            timer = setTimeout(load, 4 * REFRESH_MS);
        }
    }

    document.title = "Runs · magisd";
    fill(main, h("div", {class: "page-head"}, h("h1", null, "Runs"), h("a", {class: "button primary", href: "#/new"}, "New run")),
        h("form", {class: "filters", role: "search", onsubmit: (event) => { event.preventDefault(); change({q: search.value}); }},
            h("label", {class: "grow"}, h("span", {class: "sr"}, "Search"), search),
            h("label", null, h("span", {class: "sr"}, "State"), filter),
            h("label", null, h("span", {class: "sr"}, "Order"), sort)),
        body);
    load();
    return () => { gone = true; clearTimeout(timer); };
}
