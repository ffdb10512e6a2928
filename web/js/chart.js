// What both charts share: uPlot in the page's colours, resized with its box, redrawn with the theme.
import uPlot from "../vendor/uPlot.esm.js";
import {colour, onTheme} from "./theme.js";

export {uPlot};

const FONT = "12px system-ui, sans-serif";

export function axis(label, values, more) {
    return {stroke: colour("--faint"), grid: {stroke: colour("--grid"), width: 1}, ticks: {show: false}, font: FONT, labelFont: FONT,
        label, labelSize: label ? 22 : 0, values, gap: 6, ...more};
}

// `make` gives {options, data}; called again when the colours change. Answers {chart(), redraw(), destroy()}.
export function mountChart(box, height, make) {
    let chart = null;
    const draw = () => {
        const width = Math.max(200, Math.floor(box.clientWidth));
        const {options, data} = make();
        chart?.destroy();
        chart = new uPlot({width, height: height(width), legend: {show: false}, ...options}, data, box);
    };
    const sized = new ResizeObserver(() => {
        const width = Math.floor(box.clientWidth);
        if (chart && width > 0 && Math.abs(width - chart.width) > 1)
            chart.setSize({width, height: height(width)});
    });
    const untheme = onTheme(draw);
    draw();
    sized.observe(box);
    return {
        chart: () => chart,
        redraw: draw,
        destroy: () => { untheme(); sized.disconnect(); chart.destroy(); },
    };
}

// Device pixels: hooks draw on the canvas itself.
export function scaleOf() {
    return devicePixelRatio || 1;
}

const fontOf = (bold) => `${bold ? "600 " : ""}${12 * scaleOf()}px system-ui, sans-serif`;

// Device pixels that the words take in a row.
export function widthOf(ctx, words, bold) {
    ctx.save();
    ctx.font = fontOf(bold);
    const {width} = ctx.measureText(words);
    ctx.restore();
    return width;
}

export function text(ctx, words, x, y, {align = "left", colour: fillStyle, bold} = {}) {
    ctx.save();
    ctx.font = fontOf(bold);
    ctx.textAlign = align;
    ctx.textBaseline = "middle";
    ctx.lineJoin = "round";
    ctx.lineWidth = 4 * scaleOf();
    ctx.strokeStyle = colour("--card");
    ctx.strokeText(words, x, y);
    ctx.fillStyle = fillStyle ?? colour("--text");
    ctx.fillText(words, x, y);
    ctx.restore();
}
