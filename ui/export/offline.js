// Mounts a page's views without a server.
//
// `mounts` and `styles` come from the components before this script. The data are base64 in the page,
// which cannot end a script or become markup. Nothing here uses the network.

// Called with a view, and the name and value of what it reports.
const listeners = [];

function bytesOf(id) {
  const text = atob(document.getElementById(id).textContent.trim());
  return Uint8Array.from(text, (character) => character.charCodeAt(0));
}

const views = [...document.querySelectorAll(".view")].map((host, index) => {
  const name = host.dataset.component;
  const root = host.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = styles[name];
  const view = { name, host, root, index, message: host.dataset.message, turn: 0 };
  view.follows = JSON.parse(host.dataset.follows);
  view.renew = () => {
    const place = document.createElement("div");
    place.className = `${name} component`;
    view.stop?.();
    root.replaceChildren(style, place);
  };
  view.renew();
  return view;
});

function show(view) {
  const answer = (name, value) => {
    listeners.forEach((listen) => listen(view, name, value));
    const next = views[view.index + 1];
    const message = next && next.follows[JSON.stringify(value?.choice ?? value)];
    if (!message) return;
    next.message = message;
    show(next);
  };
  view.stop = mounts[view.name]({
    data: view.data ?? bytesOf(view.message),
    key: `view-${view.index}-${view.turn}`, // a new turn forgets the choice
    name: view.name,
    parentElement: view.root,
    setTriggerValue: answer,
  });
}

function start() {
  views.forEach(show);
  // Some views read the page's colours only when they receive a message.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => views.forEach(show));
  document.documentElement.dataset.ready = String(views.length);
}

// A canvas does not wait for a font; it draws with one that is already loaded.
const weights = [400, 600].map((weight) => document.fonts.load(`${weight} 16px "Source Sans"`));
Promise.allSettled(weights).then(start);
