// Starts the views of a page without a server: each gets its message, and a place of its own.
//
// `mounts` comes from the components' scripts in front of this one. The data lie in the page as
// base64, which cannot end a script or become markup. Nothing here asks a network for anything.

const styles = JSON.parse(document.getElementById("styles").textContent);

function bytesOf(id) {
  const text = atob(document.getElementById(id).textContent.trim());
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i += 1) bytes[i] = text.charCodeAt(i);
  return bytes;
}

const views = [...document.querySelectorAll(".view")].map((host, index) => {
  const name = host.dataset.component;
  const root = host.attachShadow({ mode: "open" });
  const style = document.createElement("style");
  style.textContent = styles[name];
  const place = document.createElement("div");
  place.className = `${name} component`;
  root.append(style, place);
  const follows = JSON.parse(host.dataset.follows);
  return { name, root, index, message: host.dataset.message, follows, stop: undefined };
});

function show(view) {
  const answer = (name, value) => {
    const next = views[view.index + 1];
    const message = next && next.follows[JSON.stringify(value?.choice ?? value)];
    if (!message) return;
    next.message = message;
    show(next);
  };
  view.stop = mounts[view.name]({
    data: bytesOf(view.message),
    key: `view-${view.index}`,
    name: view.name,
    parentElement: view.root,
    setTriggerValue: answer,
  });
}

function start() {
  views.forEach(show);
  // Some views read the colours of the page once, when they get their message.
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => views.forEach(show));
  document.documentElement.dataset.ready = String(views.length);
}

// A canvas does not wait for a font: it draws with another one that is there already.
const weights = [400, 600].map((weight) => document.fonts.load(`${weight} 16px "Source Sans"`));
Promise.allSettled(weights).then(start);
