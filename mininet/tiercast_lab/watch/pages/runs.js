"use strict";
// The list of runs, asked for again every two seconds.
const PERIOD_MS = 2000, MOST_SHOWN = 500;
let runs = [];

function cell(row, text, className = "") {
  const node = row.insertCell();
  node.textContent = text;
  node.className = className;
  return node;
}

function show() {
  const wanted = document.getElementById("find").value.trim().toLowerCase();
  const found = runs.filter(run => [run.run, run.title, run.verdict, run.live ? "live" : "", ...run.schemes ?? []]
    .join(" ").toLowerCase().includes(wanted));
  const live = runs.filter(run => run.live).length;
  document.getElementById("count").textContent = runs.length
    ? `${runs.length} runs, ${live} of them under way` + (found.length > MOST_SHOWN ? `; the newest ${MOST_SHOWN} are shown` : "")
    : "None yet. `tiercast run EXPERIMENT` makes one, and it appears here.";
  const body = document.createElement("tbody");
  body.id = "runs";
  for (const run of found.slice(0, MOST_SHOWN)) {
    const row = body.insertRow();
    const state = document.createElement("span");
    const verdict = run.live ? "live" : run.verdict ?? "unreadable";
    state.className = `verdict ${verdict.replaceAll(" ", "-").replace(",", "")}`;
    state.textContent = verdict;
    cell(row, "").append(state);
    const name = cell(row, "", "title");
    if (run.problem) {
      name.textContent = `${run.run}: ${run.problem}`;
      name.colSpan = 7;
      continue;
    }
    const link = document.createElement("a");
    link.href = `/runs/${encodeURIComponent(run.run)}`;
    link.textContent = run.title;
    const small = document.createElement("small");
    small.textContent = run.captures.length ? `${run.run}, captured: ${run.captures.join(", ")}` : run.run;
    name.append(link, small);
    cell(row, run.schemes.join(", "));
    cell(row, run.receivers, "number");
    const length = cell(row, run.live ? `${Math.floor(run.now)} of ${+run.duration.toFixed(1)} s` : `${+run.duration.toFixed(1)} s`, "number");
    if (run.live) {
      const progress = document.createElement("progress");
      progress.max = run.duration;
      progress.value = run.now;
      length.append(progress);
    }
    cell(row, run.runtime === "ns3" ? "virtual time" : "real time");
    cell(row, run.seed, "number");
    cell(row, run.started.replace("T", " ").slice(0, 16));
  }
  document.getElementById("runs").replaceWith(body);
}

async function ask() {
  try {
    const answer = await fetch("/runs.json");
    if (!answer.ok) throw new Error(await answer.text());
    runs = await answer.json();
    show();
  } catch (error) {
    document.getElementById("count").textContent = `The server does not answer: ${error.message}`;
  }
  setTimeout(ask, PERIOD_MS);
}

document.getElementById("find").oninput = show;
ask();
