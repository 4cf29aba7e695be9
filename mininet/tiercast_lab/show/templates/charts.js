"use strict";
// Line charts over 0..duration seconds: plain SVG, a crosshair with values, and a legend that hides lines.
const W = 560, H = 270, LEFT = 58, RIGHT = 12, TOP = 10, BOTTOM = 34;

function element(name, attributes, parent) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (parent) parent.append(node);
  return node;
}

function niceStep(span, count) {
  const raw = span / count, power = 10 ** Math.floor(Math.log10(raw));
  return power * [1, 2, 5, 10].find(factor => factor * power >= raw);
}

// The value of a series at a time: held for steps, of the nearest point for lines.
function valueAt(series, time) {
  let low = 0, high = series.x.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (series.x[middle] <= time) low = middle; else high = middle - 1;
  }
  if (series.x[low] > time && series.steps) return null;
  const next = Math.min(low + 1, series.x.length - 1);
  if (!series.steps && Math.abs(series.x[next] - time) < Math.abs(series.x[low] - time)) low = next;
  return series.y[low];
}

function pathOf(series, x, y) {
  let path = "", pen = false, before = null;
  series.x.forEach((time, i) => {
    const value = series.y[i];
    if (series.steps && before !== null) path += `H${x(time).toFixed(1)}`;
    if (value === null) { pen = false; before = null; return; }
    path += `${pen ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`;
    pen = true;
    before = value;
  });
  return path;
}

// Draws a panel; `measured` is the part of the time that stands out. `hidden` holds the keys of hidden lines, which a
// chart that is drawn again keeps. Returns the chart: its element, and `at(time)`, which draws a line at a time.
function draw(panel, home, duration, measured, hidden = new Set()) {
  const box = document.createElement("div");
  box.className = "chart";
  home.append(box);
  const heading = document.createElement("h3");
  heading.textContent = panel.title;
  box.append(heading);

  const values = panel.series.flatMap(s => s.y.filter(v => v !== null)).concat(panel.references.map(r => r.y));
  const top = panel.yMax ?? (Math.max(0, ...values) * 1.08 || 1);
  const x = time => LEFT + (W - LEFT - RIGHT) * time / duration;
  const y = value => H - BOTTOM - (H - TOP - BOTTOM) * Math.min(value, top) / top;

  const svg = element("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": panel.title});
  box.append(svg);
  element("rect", {class: "band", x: x(measured[0]), y: TOP, width: x(measured[1]) - x(measured[0]),
    height: H - TOP - BOTTOM}, svg);
  const yStep = niceStep(top, 5);
  for (let value = 0; value <= top * 1.0001; value += yStep) {
    element("line", {class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value)}, svg);
    element("text", {x: LEFT - 7, y: y(value) + 4, "text-anchor": "end"}, svg).textContent = +value.toPrecision(6);
  }
  const xStep = niceStep(duration, 9);
  for (let time = 0; time <= duration; time += xStep)
    element("text", {x: x(time), y: H - BOTTOM + 16, "text-anchor": "middle"}, svg).textContent = time;
  element("text", {x: W - RIGHT, y: H - 4, "text-anchor": "end"}, svg).textContent = "time (s)";
  element("text", {x: 12, y: (H - BOTTOM + TOP) / 2, "text-anchor": "middle",
    transform: `rotate(-90 12 ${(H - BOTTOM + TOP) / 2})`}, svg).textContent = panel.yLabel;
  for (const reference of panel.references) {
    const line = element("line", {x1: LEFT, x2: W - RIGHT, y1: y(reference.y), y2: y(reference.y),
      stroke: reference.colour, "stroke-dasharray": "5 4", "stroke-width": 0.9, opacity: 0.75}, svg);
    element("title", {}, line).textContent = reference.label;
  }
  if (panel.note)
    element("text", {x: W / 2, y: H / 2, "text-anchor": "middle"}, svg).textContent = panel.note;

  const legend = document.createElement("div");
  legend.className = "legend";
  box.append(legend);
  const shown = panel.series.map(series => {
    const line = {fill: "none", stroke: series.colour, "stroke-dasharray": series.dash || "none"};
    const path = element("path", {...line, d: pathOf(series, x, y), "stroke-width": series.thin ? 1 : 1.7,
      "stroke-linejoin": "round"}, svg);
    const button = document.createElement("button");
    button.type = "button";
    const swatch = element("svg", {viewBox: "0 0 28 6", "aria-hidden": "true"});
    element("path", {...line, d: "M0 3H28", "stroke-width": 2.4}, swatch);
    const value = document.createElement("b");
    button.append(swatch, series.label, value);
    const key = `${panel.key} ${series.label}`;
    const show = () => {
      button.classList.toggle("off", hidden.has(key));
      path.style.display = hidden.has(key) ? "none" : "";
    };
    button.onclick = () => {
      if (!hidden.delete(key)) hidden.add(key);
      show();
    };
    show();
    legend.append(button);
    return {series, value};
  });

  const now = element("line", {class: "now", y1: TOP, y2: H - BOTTOM, visibility: "hidden"}, svg);
  const cross = element("line", {class: "hover-line", y1: TOP, y2: H - BOTTOM, visibility: "hidden"}, svg);
  const clock = element("text", {y: TOP + 4, visibility: "hidden"}, svg);
  const area = element("rect", {x: LEFT, y: TOP, width: W - LEFT - RIGHT, height: H - TOP - BOTTOM,
    fill: "transparent"}, svg);
  area.onpointermove = event => {
    const frame = svg.getBoundingClientRect();
    const at = (event.clientX - frame.left) * W / frame.width;
    const time = Math.max(0, Math.min(duration, (at - LEFT) / (W - LEFT - RIGHT) * duration));
    for (const mark of [cross, clock]) mark.setAttribute("visibility", "visible");
    cross.setAttribute("x1", x(time));
    cross.setAttribute("x2", x(time));
    const right = time > duration * 0.8;
    clock.setAttribute("x", x(time) + (right ? -6 : 6));
    clock.setAttribute("text-anchor", right ? "end" : "start");
    clock.textContent = `${time.toFixed(1)} s`;
    for (const {series, value} of shown) {
      const seen = valueAt(series, time);
      value.textContent = seen === null ? "–" : +seen.toPrecision(4);
    }
  };
  area.onpointerleave = () => {
    for (const mark of [cross, clock]) mark.setAttribute("visibility", "hidden");
    for (const {value} of shown) value.textContent = "";
  };
  return {
    element: box,
    at(time) {
      now.setAttribute("visibility", "visible");
      now.setAttribute("x1", x(time));
      now.setAttribute("x2", x(time));
    },
  };
}
