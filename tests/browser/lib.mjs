// What the browser tests share: a daemon with a store of its own on a free port, a browser, checks
// that are counted.
import {spawn} from "node:child_process";
import {existsSync, mkdtempSync, readFileSync, rmSync} from "node:fs";
import {tmpdir} from "node:os";
import {join} from "node:path";
import {chromium} from "playwright-core";

const FLAGS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync"];

export const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export async function until(what, test, seconds = 60) {
    const end = Date.now() + seconds * 1000;
    while (Date.now() < end) {
        if (await test())
            return;
        await sleep(50);
    }
    throw new Error(`not within ${seconds} s: ${what}`);
}

export function scratch() {
    return mkdtempSync(join(process.env.MAGIS_TMP || tmpdir(), "magisd-browser-"));
}

export class Daemon {
    constructor(dir) {
        this.dir = dir;
    }

    async start(listen = "127.0.0.1:0") {
        const port = join(this.dir, "port");
        rmSync(port, {force: true});
        this.log = "";
        this.process = spawn(process.env.MAGISD ?? "build/magisd",
            ["serve", "--listen", listen, "--data", join(this.dir, "data"), "--port-file", port, "--workers", "1", "--quiet"],
            {stdio: ["ignore", "pipe", "pipe"]});
        process.on("exit", () => this.process.kill("SIGKILL"));
        this.ended = new Promise((resolve) => this.process.on("exit", resolve));
        for (const stream of [this.process.stdout, this.process.stderr])
            stream.on("data", (text) => { this.log += text; });
        await until("the daemon answers", () => existsSync(port) && readFileSync(port, "utf8").trim() !== "");
        this.address = readFileSync(port, "utf8").trim();
        this.url = `http://${this.address}`;
    }

    // A job that has ended well, with what was asked for on a built-in device.
    async plan(request) {
        const response = await fetch(`${this.url}/optimize?wait=60`, {method: "POST", headers: {"Content-Type": "application/json"},
            body: JSON.stringify({device: "rtx3090", ...request})});
        const job = await response.json();
        if (job.state !== "succeeded")
            throw new Error(`not planned: ${JSON.stringify(job)}`);
        return job;
    }

    async stop() {
        this.process.kill("SIGTERM");
        const late = setTimeout(() => this.process.kill("SIGKILL"), 15000);
        await this.ended;
        clearTimeout(late);
    }
}

export async function openBrowser(dir, options) {
    return chromium.launchPersistentContext(join(dir, "profile"), {executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
        headless: true, args: FLAGS, viewport: {width: 1280, height: 900}, acceptDownloads: true, ...options});
}

// A daemon on an empty store, a page of it in a browser, and what most tests do with these.
export async function openPage() {
    const dir = scratch();
    const shots = process.env.MAGIS_SHOTS; // a folder: pictures are left there
    const daemon = new Daemon(dir);
    await daemon.start();
    const browser = await openBrowser(dir);
    const page = browser.pages()[0] ?? await browser.newPage();
    const complaints = await watch(page, () => daemon.url);
    return {
        dir, daemon, browser, page, complaints, checks: new Checks(),
        open: (hash) => page.goto(`${daemon.url}/ui/${hash}`),
        shot: (name) => shots && page.screenshot({path: join(shots, `${name}.png`), fullPage: true}),
        text: (selector) => page.locator(selector).first().innerText(),
        api: async (path) => (await fetch(daemon.url + path)).json(),
    };
}

export class Checks {
    passed = 0;
    failed = 0;

    // One named check; what it throws is its failure.
    async check(name, work) {
        const start = Date.now();
        try {
            await work();
            this.passed++;
            console.log(`ok    ${name} (${Date.now() - start} ms)`);
        } catch (error) {
            this.failed++;
            console.log(`FAIL  ${name}: ${error.stack ?? error}`);
        }
    }

    end() {
        console.log(`${this.passed} passed, ${this.failed} failed`);
        process.exitCode = this.failed ? 1 : 0;
    }
}

// Everything a page complains of: console errors, exceptions, violations of the policy, requests to others.
export async function watch(page, origin) {
    const complaints = [];
    page.on("console", (message) => {
        if (message.type() === "error" || message.type() === "warning")
            complaints.push(`console: ${message.text()} ${message.location().url}`);
    });
    page.on("pageerror", (error) => complaints.push(`exception: ${error.stack}`));
    page.on("request", (request) => {
        const url = request.url();
        if (!url.startsWith(origin()) && !url.startsWith("blob:") && !url.startsWith("data:"))
            complaints.push(`request to another place: ${url}`);
    });
    await page.exposeBinding("reportViolation", (_, text) => { complaints.push(`policy: ${text}`); });
    await page.addInitScript(() => addEventListener("securitypolicyviolation",
        (event) => window.reportViolation(`${event.violatedDirective} ${event.blockedURI}`)));
    return complaints;
}
