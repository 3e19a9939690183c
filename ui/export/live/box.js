// The box of a gallery page: translates what is typed in a worker, and shows it in every view.
//
// `WORKER` is the worker's script, and `views` are those of offline.js. The model is a script beside
// the page, loaded at the first click: a page from a file may not fetch.

const form = document.querySelector("form.live");
const endOf = (message) => 4 + new DataView(message.buffer).getUint32(0, true);
const headerOf = (message) => JSON.parse(new TextDecoder().decode(message.subarray(4, endOf(message))));
const given = unpacked(bytesOf("trace")), templates = views.map((view) => headerOf(bytesOf(view.message)));
let now = given, chosenMap = { layer: null, head: null, kind: "cross" }, off = now.off, worker = null, turn = 0;

// Unpacks a trace in the page.
function unpacked(message) {
  const header = headerOf(message);
  let at = endOf(message);
  header.maps = Object.fromEntries(header.maps.map(([kind, shape]) => {
    const size = shape.reduce((product, side) => product * side, 1);
    const data = new Float32Array(message.slice(at, (at += 4 * size)).buffer);
    return [kind, { shape, data }];
  }));
  return header;
}

function say(text, kind = "") {
  const line = document.querySelector(".live-says");
  line.textContent = text;
  line.className = `live-says ${kind}`;
}

// The worker and, once, the model's script. Resolves when the model is open.
function opened(settings) {
  if (worker) return worker.ready;
  const thread = new Worker(URL.createObjectURL(new Blob([WORKER], { type: "text/javascript" })));
  worker = { thread, waiting: new Map() };
  thread.onmessage = ({ data }) => worker.waiting.get(data.turn)?.(data);
  worker.ready = new Promise((resolve, reject) => {
    window.headlightModel = (name, size, text) => {
      const bytes = decoded(text, size);
      asked({ bytes }, [bytes.buffer]).then(resolve);
    };
    const script = document.createElement("script");
    script.src = settings.model;
    script.onload = () => script.remove(); // and its text with it
    script.onerror = () => {
      thread.terminate();
      worker = null;
      reject(new Error("The model's file is not beside this page."));
    };
    document.head.append(script);
  });
  return worker.ready;
}

// Base64 in pieces, so that no second copy of all of it exists.
function decoded(text, size) {
  const bytes = new Uint8Array(size), piece = 1 << 20;
  for (let from = 0, to = 0; from < text.length; from += piece) {
    const part = atob(text.slice(from, from + piece));
    for (let at = 0; at < part.length; at += 1, to += 1) bytes[to] = part.charCodeAt(at);
  }
  return bytes;
}

function asked(question, moved = []) {
  turn += 1;
  const mine = turn;
  return new Promise((resolve) => {
    worker.waiting.set(mine, resolve);
    worker.thread.onerror = () => resolve({ error: "This browser cannot run the model." });
    worker.thread.postMessage({ ...question, turn: mine }, moved);
  }).finally(() => worker.waiting.delete(mine));
}

async function translate(sentence) {
  const settings = JSON.parse(form.dataset.live), names = views.map(({ name }) => name);
  const asking = { sentence, off, place: settings.place, head: settings.head, views: names };
  form.setAttribute("aria-busy", "true");
  say(worker ? "Translating…" : "Reading the model…");
  try {
    const ready = await opened(settings);
    const { trace, error } = ready.error ? ready : await asked(asking);
    if (error) throw new Error(error);
    now = trace;
    showAll();
    say(`${trace.text}${trace.complete ? "" : " … (cut at the length limit)"}`, "done");
  } catch (error) {
    say(error.message, "wrong");
  } finally {
    form.setAttribute("aria-busy", "false");
  }
}

function showAll() {
  document.querySelector("h1").textContent = now.source;
  document.body.classList.toggle("typed", now !== given);
  views.forEach((view, at) => {
    const follows = at && views[at - 1].name === "grid" && view.name === "lens";
    view.follows = {};
    view.data = MESSAGES[view.name](templates[at], now, follows ? chosenMap : undefined);
    view.turn += 1;
    if (view.name !== "grid") view.renew(); // its switches keep the keyboard's place
    show(view);
  });
}

listeners.push((view, name, value) => {
  const next = views[view.index + 1];
  if (view.name === "grid" && name === "choice" && next?.name === "lens") {
    const [layer, head, kind] = value.choice;
    chosenMap = { layer, head, kind };
    next.data = lens(templates[next.index], now, chosenMap);
    show(next);
  }
  if (view.name === "grid" && name === "switch" && form) {
    const all = off.map(String), heads = value.heads.map((head) => [value.kind, ...head]);
    const out = !heads.every((head) => all.includes(String(head)));
    off = off.filter((head) => !heads.some((other) => String(other) === String(head)));
    if (out) off = [...off, ...heads];
    translate(now.source);
  }
});

form?.addEventListener("submit", (event) => {
  event.preventDefault();
  translate(form.elements.sentence.value);
});

// One view alone, in another page's frame: `?embed=player`. The frame learns the height by a message.
const alone = new URLSearchParams(location.search).get("embed");
if (alone && views.some(({ name }) => name === alone)) {
  document.body.classList.add("embedded");
  views.forEach((view) => { view.host.hidden = view.name !== alone; });
  const titles = document.querySelectorAll(".views h2");
  titles.forEach((title) => { title.hidden = title.nextElementSibling.hidden; });
  const tell = () => parent.postMessage({ headlight: alone, height: document.body.scrollHeight }, "*");
  new ResizeObserver(tell).observe(document.body);
}

for (const field of document.querySelectorAll("textarea.frame")) {
  field.value = field.value.replace("PAGE", location.href.replace(/[?#].*$/, ""));
  field.addEventListener("focus", () => field.select());
}
