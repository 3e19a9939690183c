// The reader's choice in a view, kept in step with mount.py. Returns {value, fresh, set, later, ...}:
// `set(next, reported)` reports it, in another form if need be; `later(next, ms)` once no other one
// follows within `ms`; `fresh` is true if this message changed the value.
//
// A message carries the choice at the time it was made. Later choices made here take precedence,
// even if the view is mounted again with the same message; a newer message replaces them.
export function syncChoice(component, header) {
  // A remounted view has another key, so mount.py identifies it by `session`. Views of an offline
  // page stay mounted and share one session.
  const { session, count, choice } = header;
  const view = isOffline(header) ? component.key : session;
  const all = (window[Symbol.for("headlight.choices")] ??= new Map());
  const latest = all.get(view) ?? { count };
  all.set(view, latest);
  const newest = count >= latest.count;
  const fresh = newest && JSON.stringify(choice) !== JSON.stringify(latest.value);
  if (newest) Object.assign(latest, { count, value: choice });
  const cancel = () => clearTimeout(latest.timer);
  const put = (value, at = latest.count + 1) => {
    cancel();
    Object.assign(latest, { value, count: at });
  };
  const report = (reported = latest.value) =>
    component.setTriggerValue?.("choice", { session, count: latest.count, choice: reported });
  return {
    get value() { return latest.value; },
    fresh,
    cancel,
    set: (next, reported = next) => {
      put(next);
      report(reported);
    },
    later: (next, ms) => {
      put(next);
      latest.timer = setTimeout(report, ms);
    },
    // Take over the choice of another view, which reports it.
    follow: (other) => put(other.value, other.count),
    get count() { return latest.count; },
  };
}

// True in a page without a server.
export function isOffline(header) {
  return header.session === "offline";
}
