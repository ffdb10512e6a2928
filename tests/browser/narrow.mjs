// The page on a phone: nothing is wider than it, a run's head is short, what is wrong stands where it is mended.
import assert from "node:assert/strict";
import {openPage} from "./lib.mjs";

const PHONE = {width: 375, height: 740};
const {daemon, browser, page, complaints, checks, open, shot} = await openPage();
const boxOf = (selector) => page.locator(selector).first().boundingBox();

async function noSidewaysScroll() {
    const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
    assert.ok(wide <= seen, `${wide} px of content in ${seen} px`);
}

const job = await daemon.plan({zoo: {model: "mlp", batch: 8192}, training: {loss: "mse", optimizer: "sgd"}, limit: {memory_bytes: 2e9},
    labels: {branch: "main"}, budget: {evaluations: 500}});
const openRun = async () => {
    await open(`#/jobs/${job.id}`);
    await page.waitForSelector(".timeline canvas");
    await page.waitForSelector(".apply", {state: "attached"});
};

await checks.check("a phone's width needs no sideways scrolling", async () => {
    await page.setViewportSize({...PHONE, width: 360});
    for (const [name, hash, ready] of [["list", "#/", ".runs"], ["devices", "#/devices", "table"], ["form", "#/new", "#model"], ["run", `#/jobs/${job.id}`, ".timeline canvas"]]) {
        await open(hash);
        await page.waitForSelector(ready);
        await page.waitForTimeout(300);
        await noSidewaysScroll();
        await shot(`phone-${name}`);
    }
});

await checks.check("of a run's facts a phone shows the first, and all when asked", async () => {
    await page.setViewportSize(PHONE);
    await openRun();
    const shown = () => page.locator(".facts .dotted > span").filter({visible: true}).allInnerTexts();
    const few = await shown();
    assert.deepEqual([few.length, few[0], few.at(-1)], [4, "rtx3090", "All facts"]);
    assert.match(few[1], /^limit 2\.00 GB/);
    assert.match(few[2], /^created /);
    await page.click("#do-facts");
    assert.equal(await page.evaluate(() => document.activeElement.id), "do-facts");
    const all = await shown();
    assert.ok(all.length > few.length + 3 && all.at(-1) === "Fewer facts", all.join());
    await page.click("#do-facts");
    assert.deepEqual(await shown(), few);
    await page.setViewportSize({width: 1280, height: 900});
    assert.deepEqual(await shown(), all.slice(0, -1), "where there is room all are shown");
});

await checks.check("facts on several lines have no dots at their ends", async () => {
    await page.setViewportSize(PHONE);
    await page.click("#do-facts");
    const seen = await page.$$eval(".facts .dotted > span", (pieces) => pieces.map((piece) => {
        const row = piece.parentElement.getBoundingClientRect();
        const dot = getComputedStyle(piece, "::before").content;
        return {dot, first: piece.getBoundingClientRect().left - row.left < 1, text: piece.textContent};
    }));
    assert.ok(seen.length > 3 && seen.some(({first}, i) => first && i > 0), "the facts take several lines");
    assert.ok(seen.every(({dot, text}) => dot.includes("·") && !text.includes("·")), JSON.stringify(seen));
    const clipped = await page.$eval(".facts .dotted", (row) => getComputedStyle(row).clipPath);
    assert.match(clipped, /inset/, "the dots at the beginning of lines are cut off");
    await page.click("#do-facts");
});

await checks.check("what can be done with a run stands in one row, and each is called by its name", async () => {
    for (const viewport of [PHONE, {width: 1280, height: 900}]) {
        await page.setViewportSize(viewport);
        const boxes = await page.locator(".actions button").evaluateAll((all) => all.map((el) => el.getBoundingClientRect().toJSON()));
        assert.equal(boxes.length, 3);
        assert.ok(boxes.every(({y}) => Math.abs(y - boxes[0].y) < 1), JSON.stringify(boxes));
        assert.ok(boxes.every(({right, height}) => right <= viewport.width && height >= 36), JSON.stringify(boxes));
        for (const name of ["Keep", "Run again", "Delete"])
            assert.equal(await page.getByRole("button", {name, exact: true}).count(), 1, name);
    }
    const [head, actions] = [await boxOf(".page-head h1"), await boxOf(".actions")];
    assert.ok(actions.x > head.x && actions.y < head.y + head.height, "beside the title where there is room");
});

await checks.check("what a field lacks is said at the field, which is in view", async () => {
    const known = complaints.length;
    for (const viewport of [PHONE, {width: 1280, height: 740}]) {
        await page.setViewportSize(viewport);
        await open("#/");
        await open("#/new");
        await page.check("input[name=source][value=graph]");
        await page.setInputFiles("#graph-file", new URL("../data/onnx/gesture_keypoint_classifier.onnx", import.meta.url).pathname);
        await page.waitForSelector(".drop.filled");
        await page.click("#start");
        await page.waitForSelector(".field.wrong [name=symbols]");
        assert.equal(await page.locator(".field.wrong .complaint").innerText(), "Give sizes for these symbols: batch");
        const [field, said] = [await boxOf("[name=symbols]"), await boxOf(".complaint")];
        assert.ok(said.y >= field.y + field.height && said.y < field.y + field.height + 12, `${JSON.stringify(field)} ${JSON.stringify(said)}`);
        const bar = await boxOf("header.top");
        assert.ok(field.y > bar.y + bar.height && said.y + said.height <= viewport.height, `in view: ${JSON.stringify(said)}`);
        assert.equal(await page.getAttribute("[name=symbols]", "aria-describedby"), await page.getAttribute(".complaint", "id"));
        await shot(`complaint-${viewport.width}`);
    }
    await page.fill("[name=symbols]", "batch=0x");
    await page.click("#start");
    await page.waitForSelector(".complaint:has-text('is no name=size')");
    assert.equal(await page.locator(".complaint").count(), 1);
    assert.ok(complaints.splice(known).every((line) => /status of 422/.test(line)));
});

await checks.check("nothing was complained of", () => assert.deepEqual(complaints, []));

await browser.close();
await daemon.stop();
await checks.check("the daemon ended well", () => assert.equal(daemon.process.exitCode, 0, daemon.log));
checks.end();
