// The page as a person uses it: start with an empty store, submit, watch, choose a point, look at both
// timelines; by mouse and by keyboard, light and dark, wide and narrow; and what goes wrong.
import assert from "node:assert/strict";
import {execFile} from "node:child_process";
import {readFileSync, writeFileSync} from "node:fs";
import {join} from "node:path";
import {promisify} from "node:util";
import {openPage, until, watch} from "./lib.mjs";

const {dir, daemon, browser, page, complaints, checks, open, shot, text, api} = await openPage();

const state = (name, seconds) => page.waitForSelector(`h1 [data-state="${name}"]`, {timeout: (seconds ?? 60) * 1000});
const chosen = () => page.getAttribute("button[data-plan][aria-pressed='true']", "data-plan");

async function submit(model, fields, budget) {
    await open("#/new");
    await page.selectOption("#model", model);
    for (const [name, value] of Object.entries(fields))
        await page.fill(`[name="zoo.${name}"]`, String(value));
    await page.check(`input[name="unit"][value="${budget.seconds ? "seconds" : "evaluations"}"]`);
    await page.fill("[name=budget]", String(budget.seconds ?? budget.evaluations));
    await page.click("#start");
    await page.waitForURL(/#\/jobs\/[0-9a-z]{12}$/);
    return page.url().slice(-12);
}

// Moves over the chart until the tip names a point of the front other than the chosen one.
async function findPoint(series, avoid) {
    const box = await page.locator(".chart[role=slider] .u-over").boundingBox();
    for (let x = 4; x < box.width; x += 9)
        for (let y = 4; y < box.height; y += 12) {
            await page.mouse.move(box.x + x, box.y + y);
            const tip = page.locator(".chart-tip");
            if (await tip.isVisible() && (await tip.innerText()).startsWith(series) && await tip.innerText() !== avoid)
                return {x: box.x + x, y: box.y + y, tip: await tip.innerText()};
        }
    throw new Error(`no point of ${series} under the mouse`);
}

// The number of different colours in a chart: a blank one has one or two.
function coloursOf(selector) {
    return page.$eval(selector, (canvas) => {
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        const seen = new Set();
        for (let i = 0; i < data.length; i += 4 * 7)
            seen.add((data[i] << 16) | (data[i + 1] << 8) | data[i + 2]);
        return seen.size;
    });
}

let job;
let small; // the address of the form with a small network that is worth planning

await checks.check("the charts' library is the one that the lock file names", () => {
    for (const name of ["uPlot.esm.js", "uPlot.min.css"])
        assert.equal(readFileSync(`web/vendor/${name}`, "utf8"), readFileSync(`node_modules/uplot/dist/${name}`, "utf8"), name);
});

await checks.check("an empty store says what to do", async () => {
    await page.goto(`${daemon.url}/`);
    await page.waitForURL(/\/ui\/$/);
    assert.match(await text(".welcome"), /No runs yet/);
    assert.equal(await page.locator(".welcome a.button").count(), 2);
    small = await page.getAttribute(".welcome a.button >> nth=1", "href");
    await shot("empty");
});

await checks.check("the form knows the networks, their options and the devices", async () => {
    await open("#/new");
    await page.waitForSelector("#model");
    assert.ok(await page.locator("#model option").count() >= 10);
    await page.selectOption("#model", "bert-base");
    assert.equal(await page.inputValue("[name='zoo.seq_len']"), "512");
    assert.equal(await page.locator("select[name='zoo.variant'] option").count(), 2);
    assert.ok(await page.locator("#device option").count() >= 3);
    assert.match(await text("#limit-title"), /Limit/);
    assert.match(await text("[role=radiogroup]"), /at most 10 % longer/);
    await shot("form");
});

await checks.check("a run is submitted, watched and ends without a reload", async () => {
    job = await submit("mlp", {batch: 8192}, {seconds: 4});
    await page.evaluate(() => { window.sameDocument = true; });
    await state("running");
    await page.waitForSelector("progress");
    const before = await text("#progress-words");
    await until("the progress moves", async () => await page.locator("#progress-words").count() === 0 || await text("#progress-words") !== before);
    await state("succeeded");
    assert.equal(await page.evaluate(() => window.sameDocument), true);
    assert.equal(await page.locator("progress").count(), 0);
});

await checks.check("the figures are those of the interface", async () => {
    const figures = await api(`/jobs/${job}`);
    assert.ok(figures.best.memory_ratio < 1);
    const saved = `−${((1 - figures.best.memory_ratio) * 100).toFixed(0)} %`;
    assert.ok((await text(".tiles")).includes(saved), `${await text(".tiles")} lacks ${saved}`);
});

await checks.check("the front shows baselines and original; a click chooses a point", async () => {
    await page.waitForSelector(".chart[role=slider] canvas");
    assert.match(await text(".legend"), /magisd[\s\S]*micro-batching by hand/);
    assert.ok(await coloursOf(".chart[role=slider] canvas") > 5);
    await page.locator("#front-title").scrollIntoViewIfNeeded();
    const first = await chosen();
    let hit = await findPoint("magisd");
    await page.mouse.click(hit.x, hit.y);
    if (await chosen() === first) {
        hit = await findPoint("magisd", hit.tip);
        await page.mouse.click(hit.x, hit.y);
    }
    await until("another plan is chosen", async () => await chosen() !== first);
    const [peak] = hit.tip.split("\n")[1].split(",");
    await until("its figures are shown", async () => (await text(".figures")).startsWith(peak));
    await page.mouse.move(0, 0);
    await shot("run");
});

await checks.check("both timelines are drawn, with the hot spots named", async () => {
    await until("two timelines", async () => await page.locator(".timeline canvas").count() === 2);
    assert.deepEqual(await page.locator(".timeline h3").allInnerTexts(), ["As it is", "With the chosen plan"]);
    for (const at of [0, 1])
        assert.ok(await coloursOf(`.timeline >> nth=${at} >> canvas`) > 5);
    const original = await api(`/jobs/${job}/plans/original/timeline`);
    assert.equal(await text(".timeline .hot-name"), original.hot_groups[0].count === 1 ? original.hot[0].name : original.hot_groups[0].name);
});

await checks.check("the plan is told in words and tables", async () => {
    const timeline = await api(`/jobs/${job}/plans/${await chosen()}/timeline`);
    const words = await text("#plan-words");
    assert.match(words, timeline.regions.length ? /plits \d/ : timeline.recomputed.length ? /ecomputes \d/
        : timeline.swapped.length ? /arks [\d.]+ [kMG]?B/ : /same operators/);
    for (const [title, list] of [["Split", timeline.regions], ["Recomputed", timeline.recomputed], ["Swapped to the host", timeline.swapped]])
        assert.equal(await page.locator(".does summary", {hasText: `${title} (${list.length})`}).count(), list.length ? 1 : 0);
});

await checks.check("arrow keys move along the front; Tab reaches everything with a visible focus", async () => {
    await page.locator(".chart[role=slider]").focus();
    await page.keyboard.press("Home");
    const front = (await api(`/jobs/${job}/pareto`)).pareto;
    await until("the first is chosen", async () => await chosen() === front[0].plan);
    await page.keyboard.press("ArrowRight");
    await until("the second is chosen", async () => await chosen() === front[1].plan);
    assert.match(await page.getAttribute(".chart[role=slider]", "aria-valuetext"), /B, step time/);
    await open(`#/jobs/${job}`);
    await page.reload();
    await page.waitForSelector(".timeline canvas");
    const reached = new Set();
    for (let i = 0; i < 30; i++) {
        await page.keyboard.press("Tab");
        const focus = await page.evaluate(() => {
            const el = document.activeElement;
            return {what: el.getAttribute("role") ?? el.tagName, outline: getComputedStyle(el).outlineStyle};
        });
        reached.add(focus.what);
        assert.ok(focus.what === "BODY" || focus.outline !== "none", `no visible focus on ${focus.what}`);
    }
    for (const what of ["A", "BUTTON", "SUMMARY", "slider", "img"])
        assert.ok(reached.has(what), `Tab does not reach ${what}: ${[...reached]}`);
});

await checks.check("the table chooses too, and says which is chosen", async () => {
    await page.click("summary:has-text('The same as a table')");
    await page.click("button[data-plan=original]");
    await until("the original is chosen", async () => await chosen() === "original");
    await until("one timeline", async () => await page.locator(".timeline").count() === 1);
    await page.locator("button[data-plan]").last().click();
    await until("two timelines again", async () => await page.locator(".timeline").count() === 2);
});

// The chosen plan in that format, as text; a name as people get it.
async function take(format) {
    const [download] = await Promise.all([page.waitForEvent("download"), page.click(`[data-format=${format}]`)]);
    const file = join(dir, download.suggestedFilename());
    await download.saveAs(file);
    return {name: download.suggestedFilename(), text: readFileSync(file, "latin1")};
}

await checks.check("a plan is downloaded in every format that it can have, and the others say why not", async () => {
    await page.locator("#front-title").scrollIntoViewIfNeeded();
    await page.evaluate(() => document.querySelector("#front-title").scrollIntoView({block: "start"}));
    const hit = await findPoint("micro-batching");
    await page.mouse.click(hit.x, hit.y);
    await until("a baseline is chosen", async () => /baseline/.test(await text("#does-title")));
    const plan = await take("json");
    assert.equal(JSON.parse(plan.text).format, "magis-plan/1");
    assert.match(plan.name, /\.json$/);
    const module = await take("torch");
    assert.match(module.text, /^def step\(inputs, weights/m);
    assert.match(module.name, /\.py$/);
    const advice = await take("checkpoint");
    assert.match(advice.text, /^# Advice from a plan/);
    assert.match(advice.name, /\.txt$/);
    assert.match((await take("dot")).text, /^digraph/);
    assert.ok(await page.isDisabled("[data-format=onnx]"));
    const {formats} = await api(`/jobs/${job}/plans/original/formats`);
    assert.ok((await text("#no-onnx")).includes("the update of"), await text("#no-onnx"));
    await page.locator("button[data-plan=original]").click();
    await until("the original says that there is nothing to advise", async () => await page.locator("#no-checkpoint").count() === 1);
    assert.ok((await text("#no-checkpoint")).includes(formats.find((f) => f.format === "checkpoint").reason));
});

await checks.check("a plan is shown whether or not its formats are known", async () => {
    let release;
    const released = new Promise((resolve) => { release = resolve; });
    const answer = async (route) => {
        await released;
        await route.fulfill({status: 503, contentType: "application/problem+json",
            body: JSON.stringify({type: "/errors/queue-full", status: 503, detail: "too many bodies wait to be read"})});
    };
    const known = complaints.length;
    await page.route("**/formats", answer);
    await open("#/new");
    await open(`#/jobs/${job}`);
    await page.waitForSelector(".timeline canvas");
    assert.equal(await page.locator(".take [data-format]").count(), 0);
    release();
    await until("why there are none is said", async () => /too many bodies/.test(await text("#no-formats")));
    assert.ok(await page.locator(".timeline canvas").count() > 0);
    await page.unroute("**/formats", answer);
    assert.ok(complaints.splice(known).every((line) => /status of 503/.test(line)));
    await page.click("summary:has-text('The same as a table')");
    await page.click("button[data-plan][aria-pressed=true]");
    await page.waitForSelector(".take [data-format=json]");
});

await checks.check("a plan without training is had as an ONNX model", async () => {
    const body = JSON.stringify({zoo: {model: "mlp", batch: 64}, device: "rtx3090", budget: {evaluations: 100}});
    const forward = await (await fetch(`${daemon.url}/optimize?wait=60`, {method: "POST", headers: {"Content-Type": "application/json"}, body})).json();
    await open(`#/jobs/${forward.id}`);
    await page.waitForSelector("[data-format=onnx]");
    assert.match(await text("#plan-why"), /No limit was given: the smallest that takes at most 10 % longer/);
    const model = await take("onnx");
    assert.match(model.name, /\.onnx$/);
    assert.ok(model.text.includes("magisd"), "it names its producer");
    await open(`#/jobs/${job}`);
    await page.waitForSelector(".timeline canvas");
    await page.click("summary:has-text('The same as a table')");
});

await checks.check("a plan is modelled until an agent has measured it as a whole", async () => {
    await page.locator("button[data-plan]").nth(1).click();
    await until("two timelines", async () => await page.locator(".timeline").count() === 2);
    assert.match(await text("#plan-basis"), /modelled/);
    const known = complaints.length;
    await page.click("#do-reprice");
    await until("nothing was measured", async () => /nothing was measured/.test(await page.locator("#toasts").textContent()));
    assert.ok(complaints.splice(known).every((line) => /status of 409/.test(line)));
    await page.click("#do-measure");
    await until("it waits", async () => /waits for an agent/.test(await text("#plan-basis")));
    await promisify(execFile)(process.env.MAGISD ?? "build/magisd", ["agent", "--server", daemon.url, "--device", "cpu", "--once"]);
    await until("it is measured", async () => /Measured as a whole on /.test(await text("#plan-basis")));
    const measured = (await api(`/jobs/${job}/pareto`)).pareto.find((p) => p.measured);
    assert.equal(measured.plan, await chosen());
    assert.equal(measured.measured.peak_bytes, measured.peak_bytes);
    assert.ok((await text("tr.chosen")).includes(measured.measured.device));
    assert.match(await text(".facts"), /none measured; 1 plan measured as a whole/);
});

// WCAG's contrast of two colours of the stylesheet.
function contrasts(pairs) {
    return page.evaluate((pairs) => {
        const style = getComputedStyle(document.documentElement);
        const light = (name) => {
            const [r, g, b] = style.getPropertyValue(name).trim().match(/[0-9a-f]{2}/gi).map((x) => parseInt(x, 16) / 255)
                .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
            return 0.2126 * r + 0.7152 * g + 0.0722 * b;
        };
        return pairs.map(([a, b, least]) => {
            const [x, y] = [light(a), light(b)].sort((p, q) => q - p);
            return {a, b, least, ratio: (x + 0.05) / (y + 0.05)};
        });
    }, pairs);
}

await checks.check("text and edges stand out from their ground, light and dark", async () => {
    for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({colorScheme});
        const pairs = [...["--bg", "--card"].flatMap((ground) => ["--text", "--faint", "--accent-strong", "--bad"].map((ink) => [ink, ground, 4.5])),
            ["--good", "--good-wash", 4.5], ["--bad", "--bad-wash", 4.5], ["--warn", "--warn-wash", 4.5], ["--accent-text", "--accent", 4.5],
            ["--text", "--grid", 4.5], ["--faint", "--grid", 4.5], ["--edge", "--card", 3], ["--pick", "--card", 3], ["--base1", "--card", 3],
            ["--base2", "--card", 3], ["--accent", "--card", 3]];
        const weak = (await contrasts(pairs)).filter(({ratio, least}) => ratio < least);
        assert.deepEqual(weak, [], colorScheme);
    }
    await page.emulateMedia({colorScheme: "light"});
});

await checks.check("devices: what to do where nothing is measured, and what a run can ask for", async () => {
    await open("#/devices");
    await page.waitForSelector("table");
    assert.equal(await page.title(), "Devices · magisd");
    assert.match(await text("#main"), /rtx3090[\s\S]*25.8 GB[\s\S]*35.6 TFLOP\/s/);
    assert.match(await text("#main"), new RegExp(`magisd agent --server ${daemon.url} --device cuda:0`));
    await page.click("summary:has-text('a processor')");
    assert.match(await text("#main"), /magisd measure --calibrate --device cpu -o cpu.json\ncurl -X PUT/);
    await open(`#/jobs/${job}`);
    await page.waitForSelector(".timeline canvas");
});

await checks.check("devices: what is not believed, and why", async () => {
    const row = (number, n, seconds) => ({row: number, op: "add", signature: `f32;f32[${n}],f32[${n}]->f32[${n}]`, n: 9,
        median_s: seconds, mad_s: 1e-9, min_s: seconds});
    for (const [device, rows] of [["NVIDIA H200", [row(0, 100, 2e-9)]], ["Nobody's Card", [row(0, 100, 6e-6)]]]) {
        const body = JSON.stringify({agent: "alone", batch: `b${rows[0].median_s}`, class: {device}, rows});
        const answer = await fetch(`${daemon.url}/timings`, {method: "POST", headers: {"Content-Type": "application/json"}, body});
        assert.equal((await answer.json()).suspect, 1);
    }
    await open("#/devices");
    await page.waitForSelector("table:has-text('By the model')");
    const shown = await page.$$eval("tr:has(td.name)", (rows) => rows.map((r) => r.innerText.replace(/\s+/g, " ")));
    assert.match(shown.find((line) => line.includes("H200")), /µs [\d.]+ µs alone/);
    assert.match(shown.find((line) => line.includes("Nobody")), /no profile names it/);
    await open(`#/jobs/${job}`);
    await page.waitForSelector(".timeline canvas");
});

await checks.check("dark by the system, and by the button", async () => {
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await page.emulateMedia({colorScheme: "dark"});
    const dark = await background();
    assert.notEqual(dark, light);
    await shot("run-dark");
    await page.click("#theme-button");
    assert.equal(await background(), light);
    await page.emulateMedia({colorScheme: "light"});
    await page.click("#theme-button");
    assert.equal(await background(), dark);
    await page.click("#theme-button");
    assert.equal(await background(), light);
});

await checks.check("a wrong option is shown at its field, with what to do", async () => {
    const known = complaints.length;
    await open("#/new");
    await page.selectOption("#model", "mlp");
    await page.fill("[name='zoo.batch']", "0");
    await page.click("#start");
    await page.waitForSelector(".problem");
    assert.match(await text(".problem"), /What to do: Correct the network's batch/);
    assert.doesNotMatch(await text(".problem"), /pointer|\/zoo\/batch|graph is wrong/);
    assert.equal(await page.evaluate(() => document.activeElement.name), "zoo.batch");
    await shot("problem");
    // The browser itself reports the status of the answer; nothing else may be said.
    assert.ok(complaints.splice(known).every((line) => /status of 422/.test(line)));
});

await checks.check("an estimate comes without a run", async () => {
    await open("#/new?model=mlp");
    await page.waitForSelector("#model");
    assert.equal(await page.inputValue("#model"), "mlp");
    await page.click("text=Estimate only");
    await page.waitForSelector("#estimate");
    assert.match(await text("#estimate"), /an eager framework needs [\d.]+ MB/);
});

await checks.check("the small network of the first page saves a good deal", async () => {
    await open("#/new");
    await open(small);
    await until("the form is as the address says", async () => await page.locator("[name='zoo.layers']").count() === 1
        && await page.inputValue("[name='zoo.layers']") === "12");
    assert.equal(await page.inputValue("[name='zoo.batch']"), "4096");
    await page.selectOption("#model", "bert-base");
    assert.notEqual(await page.inputValue("[name='zoo.layers']"), "4096", "the options are of the one network alone");
    assert.equal(await page.inputValue("[name='zoo.batch']"), "32");
    await page.selectOption("#model", "mlp");
    await page.check("input[name=unit][value=evaluations]");
    await page.fill("[name=budget]", "1000");
    await page.click("#start");
    await state("succeeded");
    const {best} = await api(`/jobs/${page.url().slice(-12)}`);
    assert.ok(best.memory_ratio < 0.7 && best.latency_ratio <= 1.1, JSON.stringify(best));
});

await checks.check("the plan that is shown is seen in the chart, also far from the limit", async () => {
    const body = JSON.stringify({zoo: {model: "mlp", batch: 4096, layers: 12}, training: {loss: "mse", optimizer: "sgd"}, device: "rtx3090",
        limit: {memory_ratio: 0.25}, budget: {evaluations: 1000}});
    const run = await (await fetch(`${daemon.url}/optimize?wait=60`, {method: "POST", headers: {"Content-Type": "application/json"}, body})).json();
    assert.ok(run.outcome === "not_met" && run.best.latency_ratio > 1.5, JSON.stringify(run.best));
    await open(`#/jobs/${run.id}`);
    await page.waitForSelector(".timeline canvas");
    const [pick] = await page.evaluate(() => [getComputedStyle(document.documentElement).getPropertyValue("--pick").trim()]);
    const rgb = pick.match(/[0-9a-f]{2}/gi).map((x) => parseInt(x, 16));
    const drawn = await page.$eval(".chart[role=slider] canvas", (canvas, [r, g, b]) => {
        const {data} = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
        let n = 0;
        for (let i = 0; i < data.length; i += 4)
            n += data[i] === r && data[i + 1] === g && data[i + 2] === b;
        return n;
    }, rgb);
    assert.ok(drawn > 20, `${drawn} pixels of the ring around it`);
});

await checks.check("an address that leads to nothing says so, and leads on", async () => {
    const known = complaints.length;
    for (const [hash, title] of [["#/jobs/none", "There is no such run"], ["#/nonsense", "There is no such page"], ["#/jobs/", "There is no such page"]]) {
        await open("#/new");
        await open(hash);
        await page.waitForSelector("#nothing");
        assert.equal(await text("h1"), title);
        assert.equal(await page.title(), `${title} · magisd`);
        assert.doesNotMatch(await text("#main"), /Loading/);
        await page.click("#nothing a:has-text('All runs')");
        await page.waitForSelector(".runs");
    }
    assert.ok(complaints.splice(known).every((line) => /status of 404/.test(line)));
});

await checks.check("a limit is sent and its outcome shown", async () => {
    await open("#/new");
    await page.selectOption("#model", "mlp");
    await page.fill("[name='zoo.batch']", "4096");
    await page.check("input[name=limit][value=memory_ratio]");
    await page.fill("[name=amount]", "90");
    await page.check("input[name=unit][value=evaluations]");
    await page.fill("[name=budget]", "500");
    await page.click("#start");
    await state("succeeded");
    assert.match(await text("h1"), /limit met/);
    const request = await api(`/jobs/${page.url().slice(-12)}/request`);
    assert.deepEqual(request.limit, {memory_ratio: 0.9});
    assert.equal(request.budget.evaluations, 500);
});

await checks.check("a run with a limit says so when it is opened by its address", async () => {
    const body = JSON.stringify({zoo: {model: "mlp", batch: 4096}, training: {loss: "mse", optimizer: "sgd"}, device: "rtx3090",
        limit: {memory_bytes: 1e9}, reserve_bytes: 805e6, budget: {evaluations: 200}});
    const run = await (await fetch(`${daemon.url}/optimize?wait=60`, {method: "POST", headers: {"Content-Type": "application/json"}, body})).json();
    assert.equal(run.state, "succeeded");
    const asked = page.waitForResponse((response) => response.url().endsWith(`/jobs/${run.id}/request`));
    await page.route("**/timeline", async (route) => { // what was asked is known before the plan can be drawn
        await asked;
        await page.waitForSelector(".asked pre", {state: "attached"});
        await route.continue();
    });
    await open(`#/jobs/${run.id}`);
    await page.waitForSelector("#plan-why");
    await page.unroute("**/timeline");
    assert.match(await text("#plan-why"), run.outcome === "met" ? /^The fastest within the limit$/ : /^The nearest to the limit/);
    assert.match(await text(".facts"), /limit 1\.00 GB, of which 805 MB are kept for context and libraries/);
});

await checks.check("a graph file is taken", async () => {
    const file = join(dir, "own-net.json");
    writeFileSync(file, await (await fetch(`${daemon.url}/jobs/${job}/graph`)).text());
    await open("#/new");
    await page.check("input[name=source][value=graph]");
    await page.setInputFiles("#graph-file", file);
    await page.waitForSelector(".drop.filled");
    await page.uncheck("input[name=train]");
    await page.check("input[name=unit][value=evaluations]");
    await page.fill("[name=budget]", "300");
    await page.click("#start");
    await state("succeeded");
    assert.match(await text("h1"), /own-net/);
    await page.click("text=What was asked");
    assert.ok(JSON.parse(await text(".asked pre")).budget.evaluations === 300);
});

await checks.check("a file that is neither is refused at once", async () => {
    const file = join(dir, "passwd");
    writeFileSync(file, "root:x:0:0:root:/root:/bin/bash\n");
    await open("#/new");
    await page.check("input[name=source][value=graph]");
    await page.setInputFiles("#graph-file", file);
    await page.waitForSelector("text=passwd: this is neither JSON nor an ONNX model");
    assert.equal(await page.$(".drop.filled"), null);
});

await checks.check("an ONNX model is dropped, and says which sizes it wants", async () => {
    await open("#/new");
    await page.check("input[name=source][value=graph]");
    await page.setInputFiles("#graph-file", new URL("../data/onnx/gesture_keypoint_classifier.onnx", import.meta.url).pathname);
    await page.waitForSelector(".drop.filled");
    await page.uncheck("input[name=train]");
    await page.check("input[name=unit][value=evaluations]");
    await page.fill("[name=budget]", "50");
    const known = complaints.length;
    await page.click("#start");
    await page.waitForSelector("text=give sizes for these symbols: batch");
    await page.waitForSelector(".field.wrong [name=symbols]");
    assert.ok(complaints.splice(known).every((line) => /status of 422/.test(line)));
    await page.fill("[name=symbols]", "batch=512");
    await page.click("#start");
    await state("succeeded");
    assert.match(await text("h1"), /gesture_keypoint_classifier/);
    assert.deepEqual((await api(`/jobs/${page.url().slice(-12)}/request`)).symbols, {batch: 512});
});

await checks.check("a long run is stopped, repeated and deleted", async () => {
    const first = await submit("bert-base", {batch: 8}, {seconds: 300});
    await state("running");
    await page.click("#do-cancel");
    await state("cancelled");
    await page.click("#do-retry");
    await page.waitForFunction((id) => !location.hash.includes(id), first);
    await page.waitForSelector("#do-cancel");
    await state("running");
    await page.click("#do-cancel");
    await state("cancelled");
    await page.click("text=Keep");
    await page.waitForSelector("text=kept until deleted");
    assert.equal((await api(`/jobs/${page.url().slice(-12)}`)).pinned, true);
    await page.click("text=Let expire");
    await page.waitForSelector("#do-pin:has-text('Keep')");
    page.once("dialog", (dialog) => dialog.accept());
    await page.click("#do-delete");
    await page.waitForURL(/#\/$/);
    await page.waitForSelector(".runs");
});

await checks.check("the list is searched, filtered and leads to a run", async () => {
    await page.fill("#q", "own-net");
    await until("one run is left", async () => await page.locator(".runs tbody tr").count() === 1);
    assert.match(await text(".runs tbody tr"), /own-net/);
    await page.selectOption("#state", "failed");
    await page.waitForSelector("text=Nothing matches");
    await page.selectOption("#state", "");
    await page.fill("#q", "");
    await until("all are back", async () => await page.locator(".runs tbody tr").count() >= 4);
    await shot("list");
    await page.click(".runs tbody tr:last-child .saving");
    await page.waitForURL(new RegExp(job));
});

await checks.check("a token in the address is kept for the tab and taken out", async () => {
    const tab = await browser.newPage();
    await tab.goto(`${daemon.url}/ui/#token=abc%2Bdef`);
    await tab.waitForURL(/#\/$/);
    assert.equal(await tab.evaluate(() => sessionStorage.getItem("magisd-token")), "abc+def");
    assert.equal(await page.evaluate(() => sessionStorage.getItem("magisd-token")), null);
    await tab.close();
});

await checks.check("a job's address leads to its page", async () => {
    for (const path of [`/ui/jobs/${job}`, `/jobs/${job}`]) {
        await page.goto(daemon.url + path);
        await page.waitForURL(`${daemon.url}/ui/#/jobs/${job}`);
    }
});

await checks.check("the page waits for a daemon that is restarted, and goes on", async () => {
    await submit("mlp", {batch: 2048}, {seconds: 3});
    await state("running");
    const known = complaints.length;
    await daemon.stop();
    await page.waitForSelector(".trouble:visible");
    assert.equal(daemon.process.exitCode, 0, daemon.log);
    await daemon.start(daemon.address);
    await state("succeeded");
    assert.equal(await page.isVisible(".trouble"), false);
    assert.ok(complaints.splice(known).every((line) => /ERR_CONNECTION|ERR_INCOMPLETE|ERR_EMPTY/.test(line)));
});

await checks.check("nothing was complained of", () => assert.deepEqual(complaints, []));

await browser.close();
await daemon.stop();
await checks.check("the daemon ended well", () => assert.equal(daemon.process.exitCode, 0, daemon.log));
checks.end();
