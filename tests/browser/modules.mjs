// The page's modules that need no browser: numbers, words, timelines.
import assert from "node:assert/strict";
import * as format from "../../web/js/format.js";
import {momentsOf} from "../../web/js/timeline_data.js";
import {personWords} from "../../web/js/problem.js";
import {axisWords, besideWords, endOfPath, groupByModule, groupHot, limitWords, planWords, priceWords, repricedWords, spanWords} from "../../web/js/words.js";
import {Checks} from "./lib.mjs";

const checks = new Checks();

await checks.check("bytes are decimal, with three digits", () => {
    const cases = [[0, "0 B"], [999, "999 B"], [1000, "1.00 kB"], [999499, "999 kB"], [999500, "1.00 MB"], [12_930_000_000, "12.9 GB"],
        [25769803776, "25.8 GB"], [null, "–"], [1.5e15, "1500 TB"]];
    for (const [n, words] of cases)
        assert.equal(format.bytes(n), words);
});

await checks.check("times are in units that people read", () => {
    const cases = [[0, "0 ms"], [4.2e-6, "4.20 µs"], [0.42016, "420 ms"], [2.146, "2.15 s"], [125, "2 min 5 s"], [7260, "2 h 1 min"]];
    for (const [n, words] of cases)
        assert.equal(format.time(n), words);
});

await checks.check("changes have a sign, and none below what can be seen", () => {
    const cases = [[1, "±0 %"], [1.0004, "±0 %"], [1.052, "+5.2 %"], [0.22, "−78 %"], [8.5, "+750 %"], [637.3, "× 637"], [null, "–"]];
    for (const [n, words] of cases)
        assert.equal(format.change(n), words);
});

await checks.check("ticks of an axis tell each other apart", () => {
    assert.deepEqual(format.byteTicks([0, 2.5e9, 5e9]), ["0", "2.5 GB", "5.0 GB"]);
    assert.deepEqual(format.byteTicks([0, 2e7, 4e7]), ["0", "20 MB", "40 MB"]);
    assert.deepEqual(format.changeTicks([0.975, 1, 1.025, 1.05]), ["−2.5 %", "±0 %", "+2.5 %", "+5.0 %"]);
    assert.deepEqual(format.timeTicks([0, 0.00025, 0.0005]), ["0", "250 µs", "500 µs"]);
    assert.deepEqual(format.timeTicks([0, 0.5, 1]), ["0", "0.5 s", "1.0 s"]);
});

const nothing = {regions: [], recomputed: [], swapped: [], host_bytes: 0};
const region = {id: 0, parent: null, parts: 6, length: 32, operators: 612, axis: "d0"};

await checks.check("a plan priced anew says by what, and whether it stands", () => {
    const front = {class: "a", generation: 3, priced_class: null, priced_generation: 0,
        original: {plan: "o", latency_s: 2, latency_before_s: 1, measured_share: 1},
        pareto: [{plan: "p", latency_s: 4, latency_before_s: 1.5, measured_share: 0.5, stands: false}]};
    assert.equal(repricedWords(front, "o"),
        "By all that is measured now (generation 3) it takes 2.00 s, before 1.00 s; 100 % of its operators are measured.");
    assert.match(repricedWords(front, "p"), /takes 4.00 s, before 1.50 s; 50 % of its .*; another plan is now as good/);
    assert.equal(repricedWords(front, "q"), null);
    assert.match(repricedWords({...front, priced_class: "a", priced_generation: 3}, "o"), /^Nothing was measured since: it takes 2.00 s; /);
});

await checks.check("a plan is told in one sentence", () => {
    assert.match(planWords(nothing), /^Runs the same operators once each/);
    assert.equal(planWords({...nothing, regions: [region]}, 32), "Splits 612 operators along the batch into 6 parts.");
    assert.equal(planWords({regions: [region, {...region, id: 1, parts: 4, operators: 1}, {...region, id: 2, parent: 0}],
        recomputed: [{name: "a", times: 1, bytes: 3e9}], swapped: [{name: "v", times: 2, bytes: 1.2e9}], host_bytes: 1.2e9}, 32),
    "Splits 613 operators along the batch into 4 to 6 parts (2 regions), and parts of them once more (1 nested region); "
        + "recomputes 1 operator (3.00 GB of results need not be kept); parks 1.20 GB in host memory (1 value, copied back before use).");
});

await checks.check("an axis is called the batch only where that is known", () => {
    assert.equal(axisWords(region, 32), "the batch");
    assert.equal(axisWords(region, null), "the leading dimension");
    assert.equal(axisWords({...region, axis: "h"}, 32), "the heads");
    assert.equal(axisWords({...region, axis: "d2"}, 32), "dimension d2");
});

await checks.check("hot spots are added up by name, over all values", () => {
    const [kind, module] = ["activations", ""];
    const hot = [{name: "e.0.a", kind, module, bytes: 5}, {name: "e.1.a", kind, module, bytes: 5}, {name: "e.1.a", kind: "gradients", module, bytes: 4},
        {name: "w1", kind: "weights", bytes: 3}];
    const groups = groupHot({hot, hot_groups: [{name: "e.*.a", kind, module, count: 3, bytes: 14}, {name: "w1", kind: "weights", module, count: 1, bytes: 3},
        {name: "z", kind, module, count: 9, bytes: 2}]});
    assert.deepEqual(groups.map(({name, bytes, count, kind, values}) => [name, bytes, count, kind, values.map((v) => v.bytes)]),
        [["e.*.a", 14, 3, "activations", [5, 5]], ["w1", 3, 1, "weights", [3]], ["z", 2, 9, "activations", []]]);
});

await checks.check("where a graph names modules hot spots are theirs, by operator", () => {
    const kind = "activations";
    const value = (name, module, op, bytes) => ({name, module, op, kind, bytes});
    const hot = [value("addmm", "h.0.mlp", "gemm", 9), value("addmm_1", "h.1.mlp", "gemm", 8), value("gelu", "h.0.mlp", "gelu", 7), value("addmm_2", "0", "gemm", 6)];
    const groups = groupHot({hot, hot_groups: [{name: "h.*.mlp", module: "h.*.mlp", op: "gemm", kind, count: 2, bytes: 17},
        {name: "h.0.mlp", module: "h.0.mlp", op: "gelu", kind, count: 1, bytes: 7}, {name: "0", module: "0", op: "gemm", kind, count: 1, bytes: 6}]});
    assert.deepEqual(groups.map(({name, op, values}) => [name, op, values.map((v) => v.name)]),
        [["h.*.mlp", "gemm", ["addmm", "addmm_1"]], ["h.0.mlp", "gelu", ["gelu"]], ["module 0", "gemm", ["addmm_2"]]]);
});

await checks.check("what a plan recomputes is told by modules, numbers as * where several are meant", () => {
    const item = (name, module, op, bytes, times = 1) => ({name, module, op, bytes, times});
    const groups = groupByModule([item("a", "", "add", 2), item("a_1", "", "add", 2), item("relu", "h.0.act", "relu", 5), item("relu_1", "h.12.act", "relu", 6, 3),
        item("tanh", "h.0.act", "tanh", 4), item("exp", "1", "exp", 1)]);
    assert.deepEqual(groups.map(({name, op, count, bytes, times}) => [name, op, count, bytes, times]),
        [["h.*.act", "relu", 2, 11, [1, 3]], ["h.0.act", "tanh", 1, 4, [1, 1]], ["a", null, 1, 2, [1, 1]], ["a_1", null, 1, 2, [1, 1]],
            ["module 1", "exp", 1, 1, [1, 1]]]);
});

await checks.check("a region is told by the modules at its ends, where those tell them apart", () => {
    const span = (first, from, last, to) => spanWords({first, last, first_module: from, last_module: to});
    assert.equal(span("convolution_3", "layer1.0.conv1", "relu_9", "layer2.0.relu"), "layer1.0.conv1 … layer2.0.relu");
    assert.equal(span("addmm", "0", "addmm", "0"), "module 0");
    assert.equal(span("word.lookup", "word", "word.grad", "word"), "word.lookup … word.grad");
    assert.equal(span("a", "", "b", "h.1"), "a … b");
});

await checks.check("of a path that is too long its end is shown", () => {
    const within = (most) => (end) => end.length <= most;
    assert.equal(endOfPath("encoder.layer_*.mlp.*", within(30)), "encoder.layer_*.mlp.*");
    assert.equal(endOfPath("encoder.layer_*.mlp.*", within(14)), "…layer_*.mlp.*");
    assert.equal(endOfPath("encoder.layer_*.mlp.*", within(8)), "…mlp.*");
    assert.equal(endOfPath("encoder.layer_*.mlp.*", within(4)), null);
    assert.equal(endOfPath("", within(4)), null);
});

await checks.check("prices say where they come from", () => {
    assert.match(priceWords({exact: 0, near: 0, scaled: 0, modelled: 1}), /none measured$/);
    assert.match(priceWords({exact: 0, near: 0, scaled: 0, modelled: 1}, 20, 1), /none measured; 1 plan measured as a whole$/);
    assert.match(priceWords({exact: 0.5, near: 0.25, scaled: 0, modelled: 0.25}), /75 %/);
    assert.match(priceWords({exact: 1, near: 0, scaled: 0, modelled: 0}), /^times measured/);
});

await checks.check("a limit in bytes tells what is kept of it", () => {
    assert.equal(limitWords({limit: {memory_bytes: 1e9}, reserve_bytes: 805306368}), "limit 1.00 GB, of which 805 MB are kept for context and libraries");
    assert.equal(limitWords({limit: {memory_bytes: 2e9}, reserve_bytes: 0}), "limit 2.00 GB");
    assert.equal(limitWords({limit: {memory_ratio: 0.5}, reserve_bytes: 5}), null);
    assert.equal(limitWords(null), null);
    assert.equal(besideWords({reserve_bytes: 805306368}), "and 805 MB beside it for context and libraries");
    assert.equal(besideWords({reserve_bytes: 0}), null);
});

await checks.check("times rise where a copy waited", () => {
    const moments = momentsOf({points: [[0, 1], [5, 2], [3, 3], [4, 4]], latency_s: 6, regions: []});
    assert.deepEqual(moments, [[0, 1], [3, 2], [3, 3], [4, 4]]);
});

await checks.check("the body of a region is drawn once for each part, nested ones too", () => {
    const points = [[0, 1], [1, 2], [1, 5], [2, 6], [7, 2], [8, 1]]; // begin at 1, body, end at 7
    const one = {id: 0, parent: null, parts: 3, from_point: 1, to_point: 4};
    assert.deepEqual(momentsOf({points, latency_s: 9, regions: [one]}),
        [[0, 1], [1, 2], [1, 5], [2, 6], [3, 5], [4, 6], [5, 5], [6, 6], [7, 2], [8, 1]]);
    const nested = [{id: 0, parent: null, parts: 2, from_point: 0, to_point: 4}, {id: 1, parent: 0, parts: 2, from_point: 1, to_point: 3}];
    assert.deepEqual(momentsOf({points: [[0, 0], [0, 1], [0, 7], [2, 2], [4, 0]], latency_s: 4, regions: nested}),
        [[0, 0], [0, 1], [0, 7], [1, 7], [2, 2], [2, 1], [2, 7], [3, 7], [4, 2], [4, 0]]);
});

await checks.check("a region of very many parts is drawn by its largest moment", () => {
    const body = Array.from({length: 100}, (_, i) => [i * 1e-3, i === 40 ? 99 : 1]);
    const moments = momentsOf({points: [[0, 0], ...body, [10, 0]], latency_s: 10,
        regions: [{id: 0, parent: null, parts: 8192, from_point: 0, to_point: 101}]});
    assert.deepEqual(moments, [[0, 0], [0, 99], [10, 0]]);
});

await checks.check("problems are told to a person, not to a program", () => {
    const said = (name, more) => personWords({type: `/errors/${name}`, title: "T", hint: "H", ...more});
    assert.deepEqual(said("invalid-graph", {pointer: "/zoo/batch"}),
        {title: "Something that was asked for is not possible", place: "the network's batch", hint: "Correct the network's batch, and try again."});
    assert.deepEqual(said("invalid-graph", {pointer: "/graph/ops/3"}), {title: "T", place: null, hint: "Correct it as it says above, and try again."});
    assert.equal(said("invalid-request", {pointer: "/symbols/batch"}).place, "the size of batch");
    assert.equal(said("busy").hint, "Try again in a few seconds.");
    assert.deepEqual(said("no-space"), {title: "T", place: null, hint: "H"});
});

checks.end();
