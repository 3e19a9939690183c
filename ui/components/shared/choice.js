// The reader's choice in a view, kept in step with mount.py. Returns: {value, set(next)}, or
// `set(next, reported)` to report it in another form.
//
// A message carries the choice at the time it was made. Later choices made here take precedence,
// even if the view is mounted again with the same message; a newer message replaces them.
function syncChoice(component, header) {
  // A remounted view has another key, so mount.py identifies it by `session`. Views of an offline
  // page stay mounted and share one session.
  const view = isOffline(header) ? component.key : header.session;
  const all = (window[Symbol.for("headlight.choices")] ??= new Map());
  let latest = all.get(view);
  if (!latest || header.count >= latest.count) {
    latest = { count: header.count, value: header.choice };
    all.set(view, latest);
  }
  const set = (next, reported = next) => {
    latest = { count: latest.count + 1, value: next };
    all.set(view, latest);
    component.setTriggerValue?.("choice", { count: latest.count, choice: reported });
  };
  return { get value() { return latest.value; }, set };
}

// True in a page without a server.
function isOffline(header) {
  return header.session === "offline";
}
