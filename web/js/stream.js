// Server-sent events read with fetch, because EventSource cannot send a token. Resumes after the last
// stored event with Last-Event-ID; ends after `end`, at 204 and when the signal aborts.
import {Problem, send} from "./api.js";

const MOST_WAIT_MS = 15000;

function parse(block) {
    const event = {type: "message", data: "", id: null, retry: null};
    for (const line of block.split("\n")) {
        const colon = line.indexOf(":");
        if (colon === 0)
            continue;
        const field = colon < 0 ? line : line.slice(0, colon);
        const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
        if (field === "event")
            event.type = value;
        else if (field === "data")
            event.data += (event.data ? "\n" : "") + value;
        else if (field === "id")
            event.id = value;
        else if (field === "retry")
            event.retry = Number(value);
    }
    return event;
}

async function* blocksOf(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
        const {value, done} = await reader.read();
        if (done)
            return;
        rest += value;
        const blocks = rest.split(/\r?\n\r?\n/);
        rest = blocks.pop();
        yield* blocks;
    }
}

function pause(ms, signal) {
    return new Promise((resolve) => {
        const timer = setTimeout(resolve, ms);
        signal.addEventListener("abort", () => { clearTimeout(timer); resolve(); }, {once: true});
    });
}

// One connection; true when the story is over.
async function listen(path, state, onEvent, signal) {
    const headers = {Accept: "text/event-stream"};
    if (state.last)
        headers["Last-Event-ID"] = state.last;
    const response = await send(path, {headers, signal});
    if (response.status === 204)
        return true;
    for await (const block of blocksOf(response)) {
        const event = parse(block);
        state.wait = event.retry ?? state.wait;
        state.failures = 0;
        if (event.id)
            state.last = event.id;
        if (event.data)
            onEvent(event.type, JSON.parse(event.data));
        if (event.type === "end")
            return true;
    }
    return false;
}

export async function follow(path, {onEvent, onTrouble, signal}) {
    const state = {last: null, wait: 2000, failures: 0};
    while (!signal.aborted) {
        try {
            if (await listen(path, state, onEvent, signal))
                return;
        } catch (error) {
            if (signal.aborted)
                return;
            if (error instanceof Problem && error.status >= 400 && error.status < 500 && error.status !== 429)
                throw error;
        }
        state.failures++;
        onTrouble?.(state.failures);
        await pause(Math.min(state.wait * 1.5 ** (state.failures - 1), MOST_WAIT_MS), signal);
    }
}
