"use strict";
// A run's page, and that of one of its receivers. `frames` grows while the run goes on; `place` is the one that is shown,
// and `follows` says whether that is always the newest.
const COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "var(--ink)", "#7F7F00"];
const MOST_LINES = COLOURS.length, MOST_ROWS = 300, MOST_BUSY = 8;
const [, , encodedRun, , encodedReceiver] = location.pathname.split("/");
const runPath = `/runs/${encodedRun}`;
const chosen = encodedReceiver === undefined ? null : decodeURIComponent(encodedReceiver);
const $ = id => document.getElementById(id);
const hidden = new Set();  // lines of charts

let scene, network, frames = [], place = -1, follows = true, live = false, session = 0, charts = [], path = null;
let asked = null, waiting = false;  // of the explanation

function row(body, ...texts) {
  const made = body.insertRow();
  for (const text of texts) {
    const cell = made.insertCell();
    if (text instanceof Node) cell.append(text); else cell.textContent = text;
    if (typeof text === "string" && /^[–\d]/.test(text)) cell.className = "number";
  }
  return made;
}

function bar(share, className = "") {
  const box = document.createElement("span");
  box.className = `bar ${className}`;
  const fill = document.createElement("i");
  fill.style.width = `${100 * Math.max(0, Math.min(1, share))}%`;
  box.append(fill);
  return box;
}

function receiverPath(name) {
  return `${runPath}/receivers/${encodeURIComponent(name)}`;
}

function open(name) {
  location.href = `${receiverPath(name)}${follows && live ? "" : `#t=${frames[place]?.t ?? 0}`}`;
}

// ---- what a frame shows ----

function showFrame() {
  const frame = frames[place];
  $("newest").disabled = place === frames.length - 1 && follows;
  $("time").value = place;
  if (!frame) {
    $("clock").textContent = "–";
    return;
  }
  $("clock").textContent = `${frame.t} s`;
  $("clock").title = `of ${scene.duration} s`;
  network.show(frame, frames[place - 1], path);
  showLimits(frame);
  showSession(frame);
  showFlows(frame);
  showReceivers(frame);
  for (const chart of charts) chart.at(frame.t);
  if (chosen !== null) explain(frame.t);
}

function statesOf(frame) {
  const seconds = frame.t - (frames[place - 1]?.t ?? 0);
  return scene.directions.map((direction, n) => stateOf(direction, frame.directions[n], frame.t, seconds));
}

function showLimits(frame) {
  const body = document.createElement("tbody");
  body.id = "busiest";
  const states = statesOf(frame).filter(state => (path === null ? state.direction.used : path.has(state.direction.name)) || state.limits);
  states.sort((a, b) => severity(b) - severity(a));
  for (const state of states.filter(state => path === null || path.has(state.direction.name)).slice(0, MOST_BUSY)) {
    const load = document.createElement("span");
    load.append(bar(state.load ?? 0, state.limits ? "limits" : ""), loadText(state));
    load.className = "with-bar";
    const made = row(body, state.direction.name, load, `${state.queue ?? "–"} / ${state.direction.queue}`,
      `${state.marked ?? "–"}`, `${state.lost ?? "–"}`);
    made.classList.toggle("limits", state.limits || state.down);
    made.title = state.direction.unlimited ? megabit(state.bits) : `${megabit(state.bits)} of ${megabit(state.rate)}`;
  }
  $("busiest").replaceWith(body);
}

function showSession(frame) {
  const of = scene.sessions[session];
  $("session-name").textContent = `Session ${of.session}: ${of.scheme}, sent by ${of.sender}`;
  const follows = frame.represents[session];
  $("follows").textContent = follows === null ? "" : "It follows ";
  if (follows !== null) {
    const link = document.createElement("a");
    link.href = receiverPath(follows);
    link.textContent = follows;
    $("follows").append(link, ", its representative.");
  }
  const body = document.createElement("tbody");
  body.id = "layers";
  for (let layer = 0; layer < of.layers; ++layer) {
    const count = frame.subscribed[session][layer];
    row(body, `${layer + 1}`, megabit(frame.sent[session][layer]), bar(count / of.receivers.length),
      `${count} of ${of.receivers.length}`);
  }
  $("layers").replaceWith(body);
}

function showFlows(frame) {
  if (!scene.flows.length) return;
  const body = document.createElement("tbody");
  body.id = "flows";
  const most = Math.max(1, ...frame.flows.map(rate => rate ?? 0));
  scene.flows.slice(0, 12).forEach((flow, n) => {
    const rate = frame.flows[n];
    row(body, flow.name, rate === null ? "not there" : megabit(rate), bar((rate ?? 0) / most), flow.path.join(" "));
  });
  if (scene.flows.length > 12) row(body, `and ${scene.flows.length - 12} more`);
  $("flows").replaceWith(body);
}

function fullest(receiver, states) {
  const on = states.filter(state => receiver.path.includes(state.direction.name));
  return on.sort((a, b) => severity(b) - severity(a))[0];
}

function showReceivers(frame) {
  if (chosen !== null) return;
  const states = statesOf(frame);
  const body = document.createElement("tbody");
  body.id = "receivers";
  const names = scene.sessions[session].receivers;
  for (const name of names.slice(0, MOST_ROWS)) {
    const n = indexes.get(name), receiver = scene.receivers[n];
    const rate = frame.received[n], room = stepAt(receiver.available, frame.t);
    const link = document.createElement("a");
    link.href = receiverPath(name);
    link.dataset.receiver = name;
    link.textContent = name;
    link.onclick = event => { event.preventDefault(); open(name); };
    const worst = fullest(receiver, states);
    const made = row(body, link, rate === null ? "away" : megabit(rate), bar(room ? (rate ?? 0) / room : 0), megabit(room),
      `${frame.layers[n]} of ${scene.sessions[session].layers}`,
      worst ? `${worst.direction.name}: ${loadText(worst)}` : "–");
    made.classList.toggle("represents", frame.represents[session] === name);
    made.lastElementChild.classList.toggle("limits", Boolean(worst?.limits));
  }
  $("receivers").replaceWith(body);
  $("left-out").textContent = names.length > MOST_ROWS ? `The first ${MOST_ROWS} of ${names.length}. Point at a node of the picture for others.` : "";
}

// Asks why, one question at a time; of questions that come meanwhile the last is asked next.
async function explain(time) {
  if (asked === time) return;
  asked = time;
  if (waiting) return;
  waiting = true;
  const list = $("explanation");
  try {
    const answer = await fetch(`${receiverPath(chosen)}/explanation.json?at=${time}`);
    if (!answer.ok) throw new Error(await answer.text());
    const {at, parts} = await answer.json();
    list.replaceChildren();
    list.dataset.at = at;
    for (const {about, texts} of parts) {
      if (!texts.length) continue;
      const name = document.createElement("dt");
      name.textContent = about;
      list.append(name);
      for (const text of texts) {
        const said = document.createElement("dd");
        said.textContent = text;
        list.append(said);
      }
    }
  } catch (error) {
    list.textContent = error.message;
  }
  waiting = false;
  if (asked !== time) { const next = asked; asked = null; explain(next); }
}

// ---- charts ----

function series(label, values, colour, steps = false, thin = false) {
  return {label, colour, steps, thin, x: frames.map(frame => frame.t), y: values};
}

function someReceivers() {
  const names = scene.sessions[session].receivers, first = [], more = [], seen = new Set();
  for (const name of names) {
    const room = scene.receivers[indexes.get(name)].available[0][1];
    (seen.has(room) ? more : first).push(name);
    seen.add(room);
  }
  return names.filter(name => [...first, ...more].slice(0, MOST_LINES).includes(name));
}

function part(shown, all, what) {
  return shown.length < all.length ? ` (${shown.length} of ${all.length} ${what})` : "";
}

function panels() {
  const of = scene.sessions[session], made = [], mbit = value => value === null ? null : value / 1e6;
  const layered = [...Array(of.layers).keys()], text = n => of.layers === 1 ? "sent" : `${n + 1} layer${n ? "s" : ""}`;
  const panel = (key, title, yLabel, lines, yMax = null) =>
    made.push({key, title, yLabel, yMax, note: frames.length ? "" : "no rows yet", series: lines, references: []});
  const directions = new Map(scene.directions.map((one, n) => [one.name, n]));
  if (chosen !== null) {
    const n = indexes.get(chosen), receiver = scene.receivers[n];
    panel("one", `Rate of ${chosen}`, "Mbit/s", [
      series("received", frames.map(frame => mbit(frame.received[n])), COLOURS[0]),
      series("room on its path", frames.map(frame => stepAt(receiver.available, frame.t) / 1e6), COLOURS[6], true, true),
    ]);
    panel("one-layers", `Layers of ${chosen}`, "layers",
      [series("subscribed", frames.map(frame => frame.layers[n]), COLOURS[0], true)], of.layers * 1.05);
    panel("queues", "Longest queues on its path", "packets", receiver.path.slice(0, MOST_LINES).map((name, i) =>
      series(name, frames.map(frame => frame.directions[directions.get(name)][1]), COLOURS[i])));
    panel("marks", "Marked, dropped and lost on its path, in each step", "packets", ["marked", "dropped or lost"].map((what, i) =>
      series(what, frames.map(frame => receiver.path.reduce((sum, name) => sum + (frame.directions[directions.get(name)][2 + i] ?? 0), 0)),
        COLOURS[3 - 2 * i])));
    return made;
  }
  panel("sent", of.layers > 1 ? "Sending rates, of the lowest layers together" : "Sending rate", "Mbit/s",
    layered.map(n => series(text(n), frames.map(frame => mbit(frame.sent[session][n])), COLOURS[n])));
  const shown = someReceivers();
  panel("received", "Received rates" + part(shown, of.receivers, "receivers"), "Mbit/s",
    shown.map((name, i) => series(name, frames.map(frame => mbit(frame.received[indexes.get(name)])), COLOURS[i])));
  if (of.layers > 1)
    panel("subscribed", "Receivers of each layer", "receivers",
      layered.map(n => series(text(n), frames.map(frame => frame.subscribed[session][n]), COLOURS[n], true)), of.receivers.length * 1.05);
  if (scene.flows.length) {
    const flows = scene.flows.slice(0, MOST_LINES);
    panel("flows", "Other flows" + part(flows, scene.flows, "flows"), "Mbit/s",
      flows.map((flow, n) => series(flow.name, frames.map(frame => mbit(frame.flows[n])), COLOURS[n])));
  }
  const all = [...new Set(of.receivers.map(name => scene.receivers[indexes.get(name)].bottleneck))].filter(name => directions.has(name));
  const bottlenecks = all.slice(0, MOST_LINES);
  panel("queues", "Longest queues at the slowest links" + part(bottlenecks, all, "links"), "packets", bottlenecks.map((name, i) =>
    series(name, frames.map(frame => frame.directions[directions.get(name)][1]), COLOURS[i])));
  return made;
}

function drawCharts() {
  const home = document.createElement("section");
  home.id = "charts";
  const length = scene.duration;
  charts = panels().map(panel => {
    const chart = draw(panel, home, length, scene.window, hidden);
    const svg = chart.element.querySelector("svg");
    svg.addEventListener("click", event => {
      const box = svg.getBoundingClientRect();
      goToTime(length * ((event.clientX - box.left) * W / box.width - LEFT) / (W - LEFT - RIGHT));
    });
    return chart;
  });
  $("charts").replaceWith(home);
}

// ---- time ----

function go(to, following = false) {
  place = Math.max(0, Math.min(frames.length - 1, to));
  follows = following || (live && place === frames.length - 1);
  if (frames.length) history.replaceState(null, "", follows ? location.pathname : `#t=${frames[place].t}`);
  showFrame();
}

function goToTime(time) {
  go(Math.round(time / scene.step) - 1);
}

document.addEventListener("keydown", event => {
  if (event.ctrlKey || event.altKey || event.metaKey || !frames.length) return;
  if (event.target.matches("select, input[type=search]")) return;
  const step = event.shiftKey ? 10 : 1;
  const to = {ArrowLeft: place - step, ArrowRight: place + step, Home: 0, End: frames.length - 1}[event.key];
  if (to === undefined) return;
  event.preventDefault();
  go(to, event.key === "End");
});

// ---- what the server sends ----

function showRun({verdict, complete, reasons}) {
  document.title = `${chosen === null ? "" : `${chosen} · `}${scene.title} · tiercast`;
  $("title").textContent = chosen === null ? scene.title : `Receiver ${chosen}`;
  $("crumb").replaceChildren();
  if (chosen !== null) {
    const link = document.createElement("a");
    link.href = runPath;
    link.id = "to-run";
    link.textContent = scene.title;
    $("crumb").append(" › ", link);
  }
  const state = live ? "live" : complete ? verdict : "broken off";
  $("state").hidden = false;
  $("state").textContent = state;
  $("state").className = `verdict ${state.replaceAll(" ", "-").replace(",", "")}`;
  $("reason").hidden = live || complete;
  $("reason").textContent = reasons.join("; ");
  const window = scene.window.map(time => +time.toFixed(1)).join(" to ");
  $("facts").textContent = `${scene.run} · ${scene.runtime === "ns3" ? "virtual time" : "real time"}, seed ${scene.seed} · `
    + `${+scene.duration.toFixed(1)} s, measured from ${window} s · a step is ${scene.step} s`;
}

function took(whole) {
  scene = whole.scene;
  live = whole.live;
  showRun(whole);
}

function showTimes() {
  const slider = $("time");
  slider.max = Math.max(0, frames.length - 1);
  slider.disabled = frames.length < 2;
  $("newest").textContent = live ? "live" : "end";
}

let drawing = false;
function grew() {
  showTimes();
  if (follows) place = frames.length - 1;
  // A run in virtual time may send many frames a second: the browser's next picture shows them all.
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    drawCharts();
    showFrame();
  });
}

async function load() {
  const answer = await fetch(`${runPath}/run.json`);
  if (!answer.ok) throw new Error(await answer.text());
  const whole = await answer.json();
  const time = frames[place]?.t;
  frames = whole.frames;
  took(whole);
  return time;
}

function listen() {
  const source = new EventSource(`${runPath}/events?from=${frames.length}`);
  source.addEventListener("frames", event => {
    if (Number(event.lastEventId) <= frames.length) return;
    frames.push(...JSON.parse(event.data));
    grew();
  });
  source.addEventListener("ended", async () => {
    source.close();
    const was = follows, time = await load();
    showTimes();
    drawCharts();
    if (was || time === undefined) go(frames.length - 1); else goToTime(time);
    asked = null;
    showFrame();
  });
  source.addEventListener("problem", event => {
    source.close();
    $("reason").hidden = false;
    $("reason").textContent = JSON.parse(event.data);
  });
}

let indexes;
async function start() {
  await load();
  indexes = new Map(scene.receivers.map((receiver, n) => [receiver.name, n]));
  if (chosen !== null) {
    const receiver = scene.receivers[indexes.get(chosen)];
    session = scene.sessions.findIndex(one => one.session === receiver.session);
    path = new Set(receiver.path);
    $("why").hidden = false;
    $("all-receivers").hidden = true;
    document.body.classList.add("of-receiver");
  } else if (scene.sessions.length > 1) {
    $("session").hidden = false;
    scene.sessions.forEach((one, n) => $("session").add(new Option(`session ${one.session}`, n)));
    $("session").onchange = () => { session = Number($("session").value); drawCharts(); showFrame(); };
  }
  $("beside").hidden = scene.flows.length === 0;
  network = new Network($("network"), scene, open);
  if (chosen !== null) network.choose(scene.receivers[indexes.get(chosen)].node);
  $("time").oninput = () => go(Number($("time").value));
  $("newest").onclick = () => go(frames.length - 1, true);
  drawCharts();
  showTimes();
  const wanted = /^#t=(\d+(\.\d+)?)$/.exec(location.hash);
  if (wanted) goToTime(Number(wanted[1])); else go(frames.length - 1, true);
  if (live) listen();
}

start().catch(error => {
  $("reason").hidden = false;
  $("reason").textContent = error.message;
});
