// A run: its state as it happens, the front, the chosen plan beside the original, downloads.
import {address, api} from "./api.js";
import {isEnded, labelChips, stateBadge, titleOf} from "./badge.js";
import {copyable} from "./copy.js";
import {dotted, fill, h, icon, toast} from "./dom.js";
import {bytes, change, count, moment, time} from "./format.js";
import {FrontChart} from "./front_chart.js";
import {frontTable} from "./front_table.js";
import {showNothing} from "./nothing.js";
import {PlanView} from "./plan.js";
import {asProblem, problemCard} from "./problem.js";
import {follow} from "./stream.js";
import {besideWords, limitWords, priceWords} from "./words.js";

const STOPPED = {evaluations: "all states of the budget were evaluated", seconds: "its time to search was over (a part of the budget is kept for checking and storing plans)",
    exhausted: "nothing was left to try", cancelled: "it was cancelled", deadline: "the deadline came"};
const LOOK_AGAIN_MS = 3000;

// ---- pieces ----

function tile(label, value, note, tone) {
    return h("div", {class: `tile ${tone ?? ""}`}, h("span", {class: "faint"}, label), h("strong", null, value),
        note ? h("span", {class: "note"}, note) : null);
}

function tiles(job, request) {
    const {original, best, checked} = job;
    return h("div", {class: "tiles"},
        tile("As it is", bytes(original?.peak_bytes), original ? `${time(original.latency_s)} a step${besideWords(request) ? `; ${besideWords(request)}` : ""}` : "being computed"),
        tile(isEnded(job) ? "Best plan" : "Best so far", bytes(best?.peak_bytes),
            best ? `${change(best.memory_ratio)} memory` : null, best?.memory_ratio < 1 ? "good" : ""),
        tile("Its time", best ? change(best.latency_ratio) : "–", best ? `${time(best.latency_s)} a step` : null),
        isEnded(job) ? tile("Plans checked", count(checked.accepted),
            checked.rejected ? `${count(checked.rejected)} refused` : "independently, all accepted")
            : tile("Plans checked", "each", "before it is shown"));
}

function progressCard(job) {
    if (isEnded(job))
        return null;
    const {evaluations, elapsed_s: elapsed} = job.progress ?? {};
    const fraction = Math.min(1, job.progress?.fraction ?? 0); // the last evaluation may end after the budget
    const running = job.state === "running" || job.state === "cancelling";
    const words = running ? `${count(evaluations ?? 0)} plans evaluated in ${time(elapsed ?? 0)}`
        : job.queue ? `place ${job.queue.position} in the queue` : "being read";
    return h("div", {class: "card progress"},
        h("progress", {max: 1, value: running ? fraction : null, "aria-label": "Progress of the search"}),
        h("span", null, h("span", {id: "progress-words"}, words), running ? h("span", {class: "faint"}, fraction < 1 ? `, ${Math.floor(fraction * 100)} % of the budget` : ", gathering the plans") : null));
}

function outcomeCard(job) {
    const floor = job.lower_bound_bytes;
    if (job.outcome === "infeasible")
        return h("div", {class: "problem"}, h("strong", null, "No plan can meet this limit"),
            h("p", null, `Whatever is done, one operator${job.result?.lower_bound_operator ? ` (${job.result.lower_bound_operator})` : ""} `
                + `needs ${bytes(floor)} by itself.`),
            h("p", {class: "hint"}, "What to do: raise the limit, or make the batch smaller."));
    if (job.outcome === "not_met")
        return h("div", {class: "problem mild"}, h("strong", null, "The limit was not met"),
            h("p", null, `The smallest plan found needs ${bytes(job.smallest_found)}; it is proven only that less than ${bytes(floor)} is impossible.`),
            h("p", {class: "hint"}, "What to do: search longer, or raise the limit. The points below are the nearest that were found."));
    return null;
}

// Those that tell the run from others, and the rest, for which a narrow page has a button.
function facts(job, request, points, button) {
    const first = [job.device, limitWords(request), `created ${moment(job.created_at)}`];
    const list = [];
    if (job.stopped_by)
        list.push(`ended because ${STOPPED[job.stopped_by] ?? job.stopped_by}`);
    if (isEnded(job) && job.progress?.evaluations)
        list.push(`${count(job.progress.evaluations)} states in ${time(job.progress.elapsed_s)}`);
    if (job.reused_from)
        list.push("answered from an earlier run");
    if (job.reproducible)
        list.push("reproducible bit for bit");
    if (job.original)
        list.push(priceWords(job.prices, job.result?.operators, points.filter((p) => p.measured).length));
    if (isEnded(job) && (job.pinned || job.expires_at))
        list.push(job.pinned ? "kept until deleted" : `kept until ${new Date(job.expires_at).toLocaleDateString()}`);
    if (job.attempts > 1)
        list.push(`attempt ${job.attempts}`);
    const short = first.filter(Boolean);
    const all = [...short, ...list, button];
    return dotted("faint", all, (at) => (at < short.length ? null : at < all.length - 1 ? "more" : "narrow"));
}

function limitsOf(job, request) {
    const limit = request?.limit ?? {};
    const peak = limit.memory_bytes ? limit.memory_bytes - (request.reserve_bytes ?? 0)
        : limit.memory_ratio && job.original ? limit.memory_ratio * job.original.peak_bytes : null;
    const latency = limit.latency_ratio ?? (limit.latency_s && job.original ? limit.latency_s / job.original.latency_s : null);
    return {peak, latency};
}

// Why the plan that is shown at first is the best one: by the limit, or where there was none. Not told
// before it is known what was asked.
function whyBest(request, outcome) {
    if (!request)
        return null;
    const limit = request.limit ?? {};
    if (outcome === "not_met" || outcome === "infeasible")
        return "The nearest to the limit that was found";
    if (limit.memory_bytes || limit.memory_ratio)
        return "The fastest within the limit";
    if (limit.latency_ratio || limit.latency_s)
        return "The smallest within the limit";
    return "No limit was given: the smallest that takes at most 10 % longer";
}

// The request as one would post it from a shell.
function requestCard(request) {
    const {graph, ...rest} = request;
    const text = JSON.stringify(graph ? {graph: "as posted", ...rest} : rest, null, 2);
    return h("details", {class: "card asked"}, h("summary", null, "What was asked"),
        h("p", {class: "faint"}, "POST it to ", h("code", null, address("/optimize")), " to ask the same again."),
        copyable(text, "the request"));
}

// ---- the page ----

class RunPage {
    constructor(main, id) {
        Object.assign(this, {main, id, job: null, pareto: null, request: null, choice: null, followsBest: true});
        this.stop = new AbortController();
        this.head = h("div", null, h("p", {class: "faint"}, "Loading…"));
        this.status = h("div", {class: "stack"});
        this.trouble = h("div", {class: "trouble", role: "status", hidden: true}, "The connection is lost; trying again…");
        this.frontBox = h("div", {class: "chart-box"});
        this.frontTable = h("div");
        this.frontCard = h("section", {class: "card", "aria-labelledby": "front-title", hidden: true},
            h("div", {class: "card-head"}, h("h2", {id: "front-title"}, "Memory against time"),
                h("span", {class: "faint"}, "Choose a point, or use the arrow keys")),
            this.frontBox, this.frontTable);
        this.planBox = h("div", {class: "stack", id: "plan"});
        this.plan = new PlanView(this.planBox, id, (plan) => this.replaced(plan), () => this.refreshSoon());
        this.asked = h("div");
        fill(main, this.head, this.trouble, this.status, this.frontCard, this.planBox, this.asked);
    }

    async start() {
        document.title = `Run ${this.id} · magisd`;
        try {
            await follow(`/jobs/${this.id}/events`, {signal: this.stop.signal, onEvent: (type, data) => this.onEvent(type, data),
                onTrouble: () => { this.trouble.hidden = false; }});
            await this.refresh();
        } catch (error) {
            if (!this.stop.signal.aborted)
                this.fail(error);
        }
    }

    onEvent(type, data) {
        this.trouble.hidden = true;
        if (type === "snapshot") {
            this.take(data.job);
            this.takeFront(data.pareto);
            this.readRequest();
        } else if (type === "progress") {
            this.job.progress = {evaluations: data.evaluations, elapsed_s: data.elapsed_s, fraction: data.fraction};
            this.drawStatus();
        } else {
            this.refreshSoon();
        }
    }

    // Stored events say that something changed; what it is now is read at once, in one piece.
    refreshSoon() {
        this.again = this.refreshing;
        this.refreshing ??= this.refresh().finally(() => {
            this.refreshing = null;
            if (this.again)
                this.refreshSoon();
        });
    }

    async refresh() {
        try {
            const [job, pareto] = await Promise.all([api(`/jobs/${this.id}`, {signal: this.stop.signal}),
                api(`/jobs/${this.id}/pareto`, {signal: this.stop.signal})]);
            this.take(job);
            this.takeFront(pareto);
        } catch (error) {
            if (!this.stop.signal.aborted && error.status === 404)
                this.fail(error);
        }
    }

    fail(error) {
        if (error.status === 404) {
            this.leave();
            showNothing(this.main, "There is no such run", h("p", null, "No run is called ", h("code", null, this.id),
                ". Perhaps it was deleted, or its time to be kept is over; or the address was not copied whole."));
            return;
        }
        if (!this.job)
            fill(this.head, h("p", {class: "crumbs"}, h("a", {href: "#/"}, "Runs"), " / ", h("code", null, this.id)));
        fill(this.status, problemCard(asProblem(error), () => dispatchEvent(new Event("hashchange"))));
    }

    async readRequest() {
        if (this.request)
            return;
        try {
            this.request = await api(`/jobs/${this.id}/request`, {signal: this.stop.signal});
            fill(this.asked, requestCard(this.request));
            this.plan.setBatch(Number(this.request.zoo?.batch) || null);
            this.drawHead();
            this.drawStatus();
            if (this.pareto?.original)
                this.takeFront(this.pareto);
        } catch {
            // Only what is said of the limit and the name of the batch depend on it.
        }
    }

    take(job) {
        if (this.job && job.revision < this.job.revision)
            return;
        this.job = job;
        document.title = `${titleOf(job)} · magisd`;
        this.drawHead();
        this.drawStatus();
    }

    takeFront(pareto) {
        const known = this.points().some((p) => p.measured);
        this.pareto = pareto;
        if (this.points().some((p) => p.measured) !== known)
            this.drawHead();
        if (!pareto?.original)
            return;
        this.frontCard.hidden = false;
        this.chart ??= new FrontChart(this.frontBox, (point, series) => this.choose(point, series, true));
        this.chart.update(pareto, limitsOf(this.job, this.request));
        this.keepChoice();
        this.drawTable();
        this.lookAgain(this.points());
    }

    points() {
        const {pareto} = this;
        return pareto?.original ? [pareto.original, ...pareto.pareto, ...pareto.baselines.flatMap((b) => b.points)] : [];
    }

    // An agent's answer is no event of the job: while one is awaited the front is read again.
    lookAgain(points) {
        clearTimeout(this.later);
        if (points.some((p) => p.measuring === "wanted" || p.measuring === "measuring"))
            this.later = setTimeout(() => this.refreshSoon(), LOOK_AGAIN_MS);
    }

    // Until a point is chosen the best one is shown, whichever that is by now. A chosen one that has
    // been replaced leads to the nearest that takes no more time.
    keepChoice() {
        const {pareto} = this;
        const best = pareto.pareto.find((p) => p.plan === (pareto.best ?? this.job.best?.plan)) ?? pareto.pareto.at(-1);
        const same = pareto.pareto.find((p) => p.plan === this.choice?.plan);
        if (this.followsBest)
            this.choose(best ?? pareto.original, best ? "front" : "original", false);
        else if (same)
            this.choose(same, "front", false);
        else if (this.series === "original")
            this.choose(pareto.original, "original", false);
        else if (this.series === "front")
            this.choose(pareto.pareto.filter((p) => p.latency_s <= this.choice.latency_s).at(-1) ?? best ?? pareto.original,
                best ? "front" : "original", false);
        else
            this.choose(pareto.baselines.find((b) => b.name === this.series)?.points.find((p) => p.plan === this.choice?.plan)
                ?? this.choice, this.series, false);
    }

    choose(point, series, byHand) {
        if (byHand)
            this.followsBest = false;
        const original = series === "original";
        const plan = original ? "original" : point.plan;
        const name = series === "front" || original ? null : series;
        const isBest = series === "front" && plan === (this.pareto.best ?? this.job.best?.plan);
        const why = isBest ? whyBest(this.request, this.job.outcome) : null;
        this.choice = {...point, plan};
        this.series = series;
        this.chart.choose(original ? {...point, plan, latency_ratio: 1, memory_ratio: 1} : point, series);
        this.plan.show({...point, plan, why, latency_ratio: point.latency_ratio ?? 1, memory_ratio: point.memory_ratio ?? 1}, name);
        this.drawTable();
    }

    replaced(plan) {
        const next = this.pareto?.pareto.find((p) => p.plan === plan);
        if (next)
            this.choose(next, "front", false);
        else
            this.refreshSoon();
    }

    drawTable() {
        const open = this.frontTable.querySelector("details")?.open;
        const focused = this.frontTable.contains(document.activeElement) ? document.activeElement.dataset.plan : null;
        fill(this.frontTable, frontTable(this.pareto, this.choice?.plan, (point, series) => this.choose(point, series, true)));
        this.frontTable.querySelector("details").open = !!open;
        if (focused)
            this.frontTable.querySelector(`[data-plan="${focused}"]`)?.focus();
    }

    drawHead() {
        const {job} = this;
        const act = (name, label, picture, work, tone) => h("button", {type: "button", class: tone ?? "", id: `do-${name}`,
            title: label, onclick: async (event) => {
                event.currentTarget.disabled = true;
                try {
                    await work();
                } catch (error) {
                    toast(error.detail ?? error.title ?? String(error), true);
                    this.drawHead();
                }
            }}, icon(picture), h("span", {class: "label"}, label));
        const buttons = isEnded(job)
            ? [act("pin", job.pinned ? "Let expire" : "Keep", "pin", () => this.pin()), act("retry", "Run again", "again", () => this.retry()), act("delete", "Delete", "trash", () => this.remove(), "danger")]
            : [act("cancel", "Stop and keep the best", "stop", () => this.cancel())];
        const had = this.head.contains(document.activeElement) ? document.activeElement.id : null;
        fill(this.head, h("div", {class: "page-head of-run"}, h("div", null,
            h("p", {class: "crumbs"}, h("a", {href: "#/"}, "Runs"), " / ", h("code", null, job.id)),
            h("h1", null, titleOf(job), " ", stateBadge(job), labelChips(job)),
            this.factsLine()), h("div", {class: "row actions"}, buttons)));
        if (had)
            document.getElementById(had)?.focus();
    }

    // A narrow page shows the first few facts until it is asked for all.
    factsLine() {
        const {allFacts = false} = this;
        const button = h("button", {type: "button", class: "link", id: "do-facts", "aria-expanded": String(allFacts), onclick: () => {
            this.allFacts = !allFacts;
            this.drawHead();
        }}, allFacts ? "Fewer facts" : "All facts");
        return h("p", {class: allFacts ? "facts all" : "facts"}, facts(this.job, this.request, this.points(), button));
    }

    drawStatus() {
        const {job} = this;
        fill(this.status, job.error ? problemCard(job.error) : null, outcomeCard(job), progressCard(job),
            job.state === "failed" ? null : tiles(job, this.request));
    }

    async cancel() {
        this.take(await api(`/jobs/${this.id}/cancel`, {method: "POST"}));
        toast("Stopping; the best plans stay");
    }

    async retry() {
        const job = await api(`/jobs/${this.id}/retry`, {method: "POST"});
        location.hash = `#/jobs/${job.id}`;
    }

    async pin() {
        await api(`/jobs/${this.id}/pin`, {method: this.job.pinned ? "DELETE" : "PUT"});
        await this.refresh();
        this.drawHead();
    }

    async remove() {
        if (!confirm("Delete this run and its plans?"))
            return this.drawHead();
        await api(`/jobs/${this.id}`, {method: "DELETE"});
        toast("Deleted");
        location.hash = "#/";
    }

    leave() {
        this.stop.abort();
        clearTimeout(this.later);
        this.chart?.destroy();
        this.plan.destroy();
    }
}

export function showRun(main, id) {
    const page = new RunPage(main, id);
    page.start();
    return () => page.leave();
}
