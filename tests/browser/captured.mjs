// The page of a run of a step captured from PyTorch: it speaks of modules, and tells how a plan is applied there.
import assert from "node:assert/strict";
import {execFile} from "node:child_process";
import {mkdirSync, readFileSync, symlinkSync} from "node:fs";
import {join, resolve} from "node:path";
import {promisify} from "node:util";
import {gunzipSync} from "node:zlib";
import {openPage, until} from "./lib.mjs";

const {dir, daemon, browser, page, complaints, checks, open, shot, text, api} = await openPage();

const step = JSON.parse(gunzipSync(readFileSync("tests/data/aten/resnet18.json.gz")));
const captured = await daemon.plan({graph: step, limit: {memory_ratio: 0.6}, budget: {evaluations: 1000}});
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

// Runs lines in a shell of an empty folder, with magisd in the path.
async function runLines(lines, name) {
    const folder = join(dir, name);
    mkdirSync(folder);
    symlinkSync(resolve(process.env.MAGISD ?? "build/magisd"), join(folder, "magisd"));
    await promisify(execFile)("sh", ["-ec", lines], {cwd: folder, env: {...process.env, PATH: `${folder}:${process.env.PATH}`}});
    return (file) => readFileSync(join(folder, file), "utf8");
}

await checks.check("the lines that apply a plan of a captured step are there to be copied, and do", async () => {
    const lines = page.locator(".apply pre");
    assert.equal(await text(".apply summary"), "Apply it in PyTorch");
    assert.equal(await lines.nth(1).innerText(), 'import magis_apply\nstep = magis_apply.load("plan.json")(step)');
    await browser.grantPermissions(["clipboard-read", "clipboard-write"], {origin: daemon.url});
    await page.click(".apply [aria-label='Copy the lines for a shell']");
    await page.waitForSelector("text=Copied");
    const copied = await page.evaluate(() => navigator.clipboard.readText());
    assert.equal(copied, await lines.first().innerText());
    const got = await runLines(copied, "apply");
    const made = JSON.parse(got("plan.json"));
    assert.equal(made.program.graph.source, step.digest);
    assert.ok(got("magis_apply.py").includes("\nimport magis_capture\n"));
    assert.ok(got("magis_capture.py").includes(`\nURL = "${daemon.url}"`));
});

await checks.check("where the clipboard is closed the lines are selected", async () => {
    await page.evaluate(() => { navigator.clipboard.writeText = () => Promise.reject(new Error("closed")); });
    await page.click(".apply [aria-label='Copy the lines for Python']");
    await page.waitForSelector("text=Selected: copy it with the keyboard");
    assert.equal(await page.evaluate(() => getSelection().toString()), await page.locator(".apply pre").nth(1).innerText());
});

await checks.check("the original of a captured step has nothing to apply", async () => {
    await page.click("summary:has-text('The same as a table')");
    await page.click("button[data-plan=original]");
    await until("the original is shown", async () => await text("#does-title") === "The original");
    await until("its files are known", async () => await page.locator(".apply summary").count() === 1);
    assert.equal(await text(".apply summary"), "From a shell");
});

await checks.check("a plan of another network is checked and made into files by the lines for a shell", async () => {
    const job = await daemon.plan({zoo: {model: "mlp", batch: 256}, training: {loss: "mse", optimizer: "sgd"}, budget: {evaluations: 200}});
    await open(`#/jobs/${job.id}`);
    await page.waitForSelector(".apply");
    assert.equal(await page.getAttribute(".apply", "open"), null);
    await page.click(".apply summary:has-text('From a shell')");
    const lines = await text(".apply pre");
    const {formats, captured: isCaptured} = await api(`/jobs/${job.id}/plans/${job.best.plan}/formats`);
    assert.equal(isCaptured, false);
    const exports = formats.filter((f) => f.available && f.format !== "json");
    assert.deepEqual(lines.match(/--format \w+/g).sort(), exports.map((f) => `--format ${f.format}`).sort());
    const got = await runLines(lines, "shell");
    assert.match(got("plan.py"), /^def step\(inputs, weights/m);
    for (const {extension} of exports)
        assert.ok(got(`plan.${extension}`).length > 0, extension);
    assert.ok(!/MAGISD_TOKEN/.test(lines));
});

await checks.check("with a token the lines send it", async () => {
    await page.evaluate(() => sessionStorage.setItem("magisd-token", "abc"));
    await page.reload();
    await page.waitForSelector(".apply");
    for (const line of (await page.locator(".apply pre").textContent()).split("\n").filter((words) => words.startsWith("curl")))
        assert.match(line, /-H "Authorization: Bearer \$MAGISD_TOKEN"/);
    await page.evaluate(() => sessionStorage.removeItem("magisd-token"));
});

await checks.check("nothing was complained of", () => assert.deepEqual(complaints, []));

await browser.close();
await daemon.stop();
await checks.check("the daemon ended well", () => assert.equal(daemon.process.exitCode, 0, daemon.log));
checks.end();
