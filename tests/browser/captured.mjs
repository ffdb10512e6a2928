// The page of a run of a step captured from PyTorch: it speaks of modules, and tells how a plan is applied there.
import assert from "node:assert/strict";
import {readFileSync} from "node:fs";
import {join} from "node:path";
import {gunzipSync} from "node:zlib";
import {Checks, Daemon, openBrowser, scratch, until, watch} from "./lib.mjs";

const dir = scratch();
const shots = process.env.MAGIS_SHOTS; // a folder: pictures are left there
const daemon = new Daemon(dir);
await daemon.start();
const browser = await openBrowser(dir);
const page = browser.pages()[0] ?? await browser.newPage();
const complaints = await watch(page, () => daemon.url);
const checks = new Checks();

const open = (hash) => page.goto(`${daemon.url}/ui/${hash}`);
const shot = (name) => shots && page.screenshot({path: join(shots, `${name}.png`), fullPage: true});
const text = (selector) => page.locator(selector).first().innerText();
const api = async (path) => (await fetch(daemon.url + path)).json();

async function plan(request) {
    const body = JSON.stringify({device: "rtx3090", ...request});
    const job = await (await fetch(`${daemon.url}/optimize?wait=60`, {method: "POST", headers: {"Content-Type": "application/json"}, body})).json();
    assert.equal(job.state, "succeeded");
    return job;
}

const step = JSON.parse(gunzipSync(readFileSync("tests/data/aten/resnet18.json.gz")));
const captured = await plan({graph: step, limit: {memory_ratio: 0.6}, budget: {evaluations: 1000}});
const timeline = await api(`/jobs/${captured.id}/plans/${captured.best.plan}/timeline`);

await checks.check("what holds memory is told by modules", async () => {
    const original = await api(`/jobs/${captured.id}/plans/original/timeline`);
    await open(`#/jobs/${captured.id}`);
    await until("two timelines", async () => await page.locator(".timeline canvas").count() === 2);
    const names = await page.locator(".timeline >> nth=0 >> .hot-name").allInnerTexts();
    assert.deepEqual(names, original.hot_groups.slice(0, 6).map(({name}) => name));
    assert.ok(names.includes("layer*.*.conv*"), names.join());
    assert.ok(names.includes("conv1"), names.join());
    const convs = page.locator(".timeline >> nth=0 >> .hot li", {hasText: "layer*.*.conv*"}).first();
    assert.match(await convs.locator("small").innerText(), /activations\D*16 values from conv, the largest/);
    assert.match(await convs.locator(".hot-name").getAttribute("title"), /^convolution_\d+ in layer1\.0\.conv1$/m);
    await shot("captured");
});

await checks.check("what a plan does is told by modules", async () => {
    assert.ok(timeline.recomputed.length > 2, "the plan recomputes something");
    assert.ok(timeline.recomputed.every(({module, op}) => typeof module === "string" && op));
    const table = page.locator(".does details:has(summary:has-text('Recomputed'))");
    assert.equal(await table.locator("th").first().innerText(), "Module");
    const rows = await table.locator("td.named .name").allInnerTexts();
    assert.ok(rows.some((name) => /^layer\*\.\*\.\w+\*?$/.test(name)), rows.join());
    assert.ok(!rows.some((name) => /convolution|relu_/.test(name)), rows.join());
});

await checks.check("nothing was complained of", () => assert.deepEqual(complaints, []));

await browser.close();
await daemon.stop();
await checks.check("the daemon ended well", () => assert.equal(daemon.process.exitCode, 0, daemon.log));
checks.end();
