"use strict";
// The picture of the network: each direction of a link that carries something is a lane beside the link, coloured by its
// load; a gauge at the end where packets wait shows the queue.
const LANE = 4.5, GAUGE = 30, BUSY = 0.9, WAITING = 0.1, RADIUS = 13, MOST_LABELS = 14, LEAST_LOAD = 0.03, LARGEST = 1.5;

// A quantity that is constant between its steps [time, value].
function stepAt(steps, time) {
  let value = steps[0][1];
  for (const [at, next] of steps) if (at <= time) value = next;
  return value;
}

// What a frame says of a direction. `load` is null where it is unknown or the rate has no limit.
function stateOf(direction, numbers, time, seconds) {
  const [bits, queue, marked, lost] = numbers ?? [null, null, null, null];
  const rate = stepAt(direction.rates, time - seconds / 2);
  const down = direction.rates.length > 0 && rate === 0 && !direction.unlimited;
  const load = bits === null || rate === 0 ? null : bits / rate;
  const limit = direction.queue_packets;
  const filled = queue === null || !limit ? null : Math.min(1, queue / limit);
  // A link can be full of what a link before it lets through: nothing waits there, and it limits nobody.
  const limits = !down && (lost > 0 || ((load ?? 0) >= BUSY && (marked > 0 || (filled ?? 1) >= WAITING)));
  return {direction, bits, queue, marked, lost, rate, load, down, filled, limits};
}

// Sorts the states of directions: the one that limits most first.
function severity(state) {
  if (state.down) return 1e9;
  return (state.limits ? 1e8 : 0) + 1e4 * Math.min(1e3, state.lost ?? 0) + 10 * Math.min(900, state.marked ?? 0)
    + 9 * (state.filled ?? 0) + Math.min(1, state.load ?? 0) / 2;
}

function percent(share) {
  return share === null ? "–" : `${Math.round(100 * share)} %`;
}

// A load in words: it is unknown where a switch reports nothing, as in a step without rows.
function loadText(state) {
  return state.down ? "down" : state.direction.unlimited ? "no limit" : state.load === null ? "unknown" : percent(state.load);
}

function megabit(bits) {
  if (bits === null || bits === undefined) return "–";
  return `${(bits / 1e6).toFixed(bits >= 1e8 ? 0 : bits >= 1e7 ? 1 : 2)} Mbit/s`;
}

class Network {
  constructor(svg, scene, onReceiver) {
    this.svg = svg;
    this.scene = scene;
    const named = Math.max(0, ...scene.nodes.map(node => node.name.length));
    const beside = Math.max(46, 4 * named);
    const width = scene.width + 2 * beside;
    svg.setAttribute("viewBox", `${-beside} -14 ${width} ${scene.height + 50}`);
    svg.style.maxWidth = `${Math.round(LARGEST * width)}px`;
    this.places = new Map(scene.nodes.map(node => [node.node, node]));
    const links = element("g", {}, svg), nodes = element("g", {}, svg);
    this.labels = element("g", {class: "labels"}, svg);
    for (const one of scene.directions)
      if (one.from < one.to || !scene.directions.some(other => other.name === `${one.to}>${one.from}`)) {
        const [a, b] = [this.places.get(one.from), this.places.get(one.to)];
        element("line", {class: "cable", x1: a.x, y1: a.y, x2: b.x, y2: b.y}, links);
      }
    this.lanes = scene.directions.map(direction => this.lane(direction, links));
    const receivers = new Map();
    for (const receiver of scene.receivers) receivers.set(receiver.node, [...receivers.get(receiver.node) ?? [], receiver]);
    this.nodes = new Map();
    for (const node of scene.nodes) {
      const group = element("g", {class: `node ${node.kind}`, transform: `translate(${node.x} ${node.y})`}, nodes);
      element("circle", {class: "ring", r: RADIUS + 5}, group);
      element("circle", {r: RADIUS}, group);
      element("text", {}, group).textContent = node.node;
      const here = receivers.get(node.node) ?? [];
      const below = element("text", {class: "below", y: RADIUS + 14}, group);
      const title = element("title", {}, group);
      if (here.length) {
        group.setAttribute("tabindex", 0);
        group.setAttribute("role", "link");
        group.setAttribute("data-receiver", here[0].name);
        group.setAttribute("aria-label", `receiver ${here[0].name}`);
        group.addEventListener("click", () => onReceiver(here[0].name));
        group.addEventListener("keydown", event => { if (event.key === "Enter") onReceiver(here[0].name); });
      }
      this.nodes.set(node.node, {node, group, below, title, here});
    }
  }

  // The lane of a direction: to the right of the link's middle, as traffic drives, from node to node.
  lane(direction, home) {
    const [a, b] = [this.places.get(direction.from), this.places.get(direction.to)];
    const length = Math.hypot(b.x - a.x, b.y - a.y) || 1;
    const [ux, uy] = [(b.x - a.x) / length, (b.y - a.y) / length];
    const [nx, ny] = [-uy, ux];
    const at = (along, beside) => [a.x + ux * along + nx * beside, a.y + uy * along + ny * beside];
    const [begin, end] = [RADIUS + 1, length - RADIUS - 1];
    const group = element("g", {class: "lane", "data-direction": direction.name}, home);
    const line = (className, from, to, beside) => {
      const [x1, y1] = at(from, beside), [x2, y2] = at(to, beside);
      return element("line", {class: className, x1, y1, x2, y2}, group);
    };
    const halo = line("halo", begin, end, LANE);
    const load = line("load", begin, end, LANE);
    const middle = (begin + end) / 2;
    const tip = at(middle + 5, LANE), left = at(middle - 4, LANE + 5), right = at(middle - 4, LANE - 5);
    const arrow = element("polyline", {class: "arrow", points: [left, tip, right].map(p => p.join()).join(" ")}, group);
    const room = Math.max(6, Math.min(GAUGE, (end - begin) / 2.5));
    const trough = line("trough", begin + 2, begin + 2 + room, LANE + 8);
    const gauge = line("gauge", begin + 2, begin + 2 + room, LANE + 8);
    const title = element("title", {}, group);
    const [x, y] = at(begin + 0.5 * (end - begin), LANE + 13);
    return {direction, group, halo, load, arrow, trough, gauge, title, at, begin, room, x, y, nx};
  }

  // Shows a frame. `path` holds the directions to stand out, or is null.
  show(frame, previous, path) {
    const seconds = frame.t - (previous?.t ?? 0);
    const states = this.scene.directions.map((direction, n) => stateOf(direction, frame.directions[n], frame.t, seconds));
    const worst = [...states].filter(state => state.limits || state.down).sort((a, b) => severity(b) - severity(a));
    const labelled = new Set(worst.slice(0, MOST_LABELS));
    this.labels.replaceChildren();
    states.forEach((state, n) => {
      const lane = this.lanes[n];
      const shown = state.direction.used || state.down || (state.load ?? 0) >= LEAST_LOAD || state.limits;
      lane.group.style.display = shown ? "" : "none";
      if (!shown) return;
      lane.group.classList.toggle("limits", state.limits);
      lane.group.classList.toggle("down", state.down);
      lane.group.classList.toggle("worst", state === worst[0]);
      lane.group.classList.toggle("aside", path !== null && !path.has(state.direction.name));
      lane.load.style.setProperty("--load", Math.min(1, state.load ?? 0).toFixed(3));
      const filled = state.filled ?? 0;
      const [x2, y2] = lane.at(lane.begin + 2 + lane.room * filled, LANE + 8);
      lane.gauge.setAttribute("x2", x2);
      lane.gauge.setAttribute("y2", y2);
      const waits = filled >= WAITING;
      lane.gauge.style.display = lane.trough.style.display = waits ? "" : "none";
      lane.title.textContent = this.titleOf(state);
      if (labelled.has(state) || (state.marked ?? 0) > 0) this.label(lane, state);
    });
    for (const {node, group, below, title, here} of this.nodes.values()) {
      const places = here.map(one => this.scene.receivers.indexOf(one));
      const represents = here.some(one => frame.represents.includes(one.name));
      group.classList.toggle("represents", represents);
      const rate = places.length ? frame.received[places[0]] : null;
      const texts = node.name ? [node.name] : [];
      if (places.length) texts.push(rate === null ? "away" : (rate / 1e6).toFixed(2));
      below.textContent = texts.join(" · ");
      title.textContent = here.length
        ? here.map((one, n) => `${one.name}: ${megabit(frame.received[places[n]])} received`).join("\n") + "\nclick for why"
        : `node ${node.node}${node.kind === "sender" ? ": the sender" : ""}`;
    }
  }

  titleOf(state) {
    const {direction} = state;
    if (state.down) return `${direction.name}: down`;
    const sent = direction.unlimited ? `${megabit(state.bits)} (no limit)` : `${megabit(state.bits)} of ${megabit(state.rate)} (${loadText(state)})`;
    return `${direction.name}: ${sent}, `
      + `queue at most ${state.queue ?? "–"} of ${direction.queue}, ${state.marked ?? "–"} marked, ${state.lost ?? "–"} dropped or lost; `
      + `${direction.delay_ms} ms, ${direction.marking}`;
  }

  label(lane, state) {
    const anchor = lane.nx > 0.3 ? "start" : lane.nx < -0.3 ? "end" : "middle";
    const text = element("text", {x: lane.x, y: lane.y, "text-anchor": anchor, class: state.limits || state.down ? "strong" : ""}, this.labels);
    if (state.down) {
      text.textContent = "down";
      return;
    }
    const part = (className, content) => { element("tspan", {class: className}, text).textContent = content; };
    if (state.limits) part("", `${loadText(state)} `);
    if (state.marked > 0) part("marks", `◆${state.marked} `);
    if (state.lost > 0) part("drops", `✕${state.lost}`);
  }

  choose(node) {
    for (const one of this.nodes.values()) one.group.classList.toggle("chosen", one.node.node === node);
  }
}
