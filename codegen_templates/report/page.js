"use strict";
/* Runs the model of the page and draws a slice of its prediction along each input. */
(async function () {
  const holder = document.getElementById("live-data");
  if (!holder || typeof WebAssembly === "undefined") return;
  const data = JSON.parse(holder.textContent);
  const bytes = Uint8Array.from(atob(data.wasm), (c) => c.charCodeAt(0));
  const { exports } = (await WebAssembly.instantiate(bytes, {})).instance;
  const memory = (name, length) => new Float32Array(exports.memory.buffer, exports[name].value, length);
  const input = memory("input", data.count);
  const mean = memory("mean", data.outputs.length);
  const variance = memory("variance", data.outputs.length);
  const decided = data.head ? memory("decided", 3) : null; /* then means are probabilities, and variances 0 */

  const STEPS = 120, MARGIN = { left: 52, right: 10, top: 8, bottom: 24 };
  const at = new Array(data.count).fill(0);
  for (const spec of data.inputs) at[spec.index] = (spec.low + spec.high) / 2;
  for (const choice of data.choices) at[choice.first] = 1;
  let output = 0;

  function predict(values) {
    input.set(values);
    return exports.predict() === 0 ? { mean: mean[output], sd: Math.sqrt(variance[output]) } : null;
  }

  /* Two digits of `unit`, such as the standard deviation, decide how many of a value are worth showing. */
  const round = (value, unit) => {
    const digits = Math.min(12, 1 - Math.floor(Math.log10(Math.abs(unit) || 1)));
    return Math.abs(value) >= 1e6 || digits > 7 ? value.toPrecision(4) : value.toFixed(Math.max(0, digits));
  };

  function ticks(low, high, most) {
    const raw = (high - low) / most, power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= raw * 0.999);
    const list = [];
    for (let i = Math.ceil(low / step); i * step <= high + step * 1e-9; i++) list.push(i * step);
    const digits = Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)));
    const big = Math.max(Math.abs(low), Math.abs(high));
    return list.map((v) => [v, big >= 1e5 || step < 1e-4 ? Number(v.toPrecision(3)).toExponential() : v.toFixed(digits)]);
  }

  function make(tag, attributes, parent) {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (parent) parent.append(element);
    return element;
  }

  function slice({ index, from, to }) {
    const values = at.slice(), rows = [];
    for (let i = 0; i <= STEPS; i++) {
      values[index] = from + ((to - from) * i) / STEPS;
      const answer = predict(values);
      if (answer) rows.push([values[index], answer.mean, answer.sd]);
    }
    return rows;
  }

  function bounds(all) {
    if (decided) return [-0.04, 1.04];
    let low = Infinity, high = -Infinity;
    for (const rows of all) for (const [, m, s] of rows) { low = Math.min(low, m - 2 * s); high = Math.max(high, m + 2 * s); }
    for (const point of data.points) { low = Math.min(low, point[1 + output]); high = Math.max(high, point[1 + output]); }
    const pad = 0.04 * (high - low) || 1;
    return [low - pad, high + pad];
  }

  function draw(view, rows, [low, high]) {
    const { svg, spec } = view, index = spec.index, width = view.box.clientWidth || 320, height = Math.round(Math.min(340, Math.max(200, width * 0.55)));
    const x = (v) => MARGIN.left + ((v - spec.from) / (spec.to - spec.from)) * (width - MARGIN.left - MARGIN.right);
    const y = (v) => height - MARGIN.bottom - ((v - low) / (high - low)) * (height - MARGIN.top - MARGIN.bottom);
    svg.replaceChildren();
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    for (const [v, text] of ticks(low, high, height / 38)) {
      make("line", { class: "grid", x1: MARGIN.left, x2: width - MARGIN.right, y1: y(v), y2: y(v) }, svg);
      make("text", { x: MARGIN.left - 6, y: y(v) + 4, "text-anchor": "end" }, svg).textContent = text;
    }
    for (const [v, text] of ticks(spec.from, spec.to, width / 75))
      make("text", { x: x(v), y: height - 7, "text-anchor": "middle" }, svg).textContent = text;
    const line = (sign) => rows.map(([v, m, s]) => `${x(v).toFixed(1)} ${y(m + sign * s).toFixed(1)}`);
    for (const k of [2, 1]) make("path", { class: `b${k}`, d: `M${line(k).join("L")}L${line(-k).reverse().join("L")}Z` }, svg);
    for (const edge of [spec.low, spec.high]) make("path", { class: "range", d: `M${x(edge)} ${MARGIN.top}V${height - MARGIN.bottom}` }, svg);
    if (data.points.length) {
      const dots = make("g", { class: "dots" }, svg);
      for (const point of data.points) make("circle", { cx: x(point[0]), cy: y(point[1 + output]), r: 2 }, dots);
    }
    make("path", { class: "mean", d: `M${line(0).join("L")}` }, svg);
    const now = predict(at);
    make("path", { class: "here", d: `M${x(at[index])} ${MARGIN.top}V${height - MARGIN.bottom}` }, svg);
    if (now) {
      make("path", { class: "bar", d: `M${x(at[index])} ${y(now.mean - 2 * now.sd)}V${y(now.mean + 2 * now.sd)}` }, svg);
      make("circle", { class: "dot", cx: x(at[index]), cy: y(now.mean), r: 7 }, svg);
    }
    view.slider.value = at[index];
    view.shown.textContent = round(at[index], (spec.to - spec.from) / 100);
    view.toInput = (pixel) => spec.from + ((pixel * (width / svg.getBoundingClientRect().width) - MARGIN.left) / (width - MARGIN.left - MARGIN.right)) * (spec.to - spec.from);
  }

  function say() {
    const now = predict(at), answer = document.getElementById("live-answer");
    if (!now) { answer.textContent = "The model gives no answer here."; return; }
    const bold = document.createElement("b");
    const outside = data.inputs.some((spec) => at[spec.index] < spec.low || at[spec.index] > spec.high);
    const remark = (text) => {
      const far = document.createElement("span");
      far.className = "far";
      far.textContent = text;
      answer.append(far, " ");
    };
    if (decided) {
      const best = mean.indexOf(Math.max(...mean));
      bold.textContent = `${data.outputs[best]} ${(100 * mean[best]).toFixed(1)} %`;
      answer.replaceChildren(bold, ` · entropy ${decided[0].toFixed(3)} nats, of which ${decided[1].toFixed(3)} for want of data `);
      if (decided[2]) remark("unsure");
    } else {
      bold.textContent = round(now.mean, now.sd);
      answer.replaceChildren(`${data.outputs[output]}: `, bold, ` ± ${round(now.sd, now.sd)}`,
        ` · 95 % between ${round(now.mean - 1.96 * now.sd, now.sd)} and ${round(now.mean + 1.96 * now.sd, now.sd)} `);
    }
    if (outside) remark("outside the range");
    answer.dataset.mean = now.mean;
    answer.dataset.sd = now.sd;
  }

  function refresh() {
    const all = views.map((view) => slice(view.spec)), range = bounds(all);
    views.forEach((view, i) => draw(view, all[i], range));
    say();
  }

  function move({ index, from, to }, value) {
    at[index] = Math.min(to, Math.max(from, value));
    refresh();
  }

  function build(spec) {
    const box = document.createElement("div"), svg = make("svg", { role: "img" });
    const label = document.createElement("label"), name = document.createElement("span");
    const slider = document.createElement("input"), shown = document.createElement("output");
    box.className = "live";
    name.textContent = spec.name;
    svg.setAttribute("aria-label", `prediction along ${spec.name}`);
    Object.assign(slider, { type: "range", min: spec.from, max: spec.to, step: "any" });
    slider.addEventListener("input", () => move(spec, Number(slider.value)));
    label.append(name, slider, shown);
    box.append(svg, label);
    const view = { box, svg, slider, shown, spec };
    const follow = (event) => move(spec, view.toInput(event.clientX - svg.getBoundingClientRect().left));
    svg.addEventListener("pointerdown", (event) => { svg.setPointerCapture(event.pointerId); follow(event); });
    svg.addEventListener("pointermove", (event) => { if (svg.hasPointerCapture(event.pointerId)) follow(event); });
    document.getElementById("live-plots").append(box);
    return view;
  }

  function choose(choice) {
    const label = document.createElement("label"), select = document.createElement("select");
    label.className = "choose";
    choice.levels.forEach((level, i) => select.append(new Option(level, i)));
    select.addEventListener("change", () => {
      choice.levels.forEach((_, i) => { at[choice.first + i] = i === Number(select.value) ? 1 : 0; });
      refresh();
    });
    label.append(`${choice.name} `, select);
    document.getElementById("live-choices").append(label);
  }

  const views = data.inputs.map(build);
  data.choices.forEach(choose);
  const chooser = document.getElementById("live-output");
  if (chooser) chooser.addEventListener("change", () => { output = Number(chooser.value); refresh(); });
  document.getElementById("live").hidden = false;
  document.getElementById("live-off").hidden = true;
  new ResizeObserver(refresh).observe(document.getElementById("live-plots"));
  window.addEventListener("beforeprint", refresh);
  refresh();
})();
