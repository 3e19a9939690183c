// Synchronises a view's choice with mount.py. Returns {value, fresh, set, later, ...}: `set(next,
// reported)` reports a choice, optionally in another form; `later(next, ms)` reports it unless another
// one follows within `ms`; `fresh` is true if this message changed the value.
//
// Choices made here override the choice in the message, even if the view is mounted again with that
// message; a newer message overrides them.
export function syncChoice(component, header) {
  // A remounted view has a new key, so `session` identifies it. Views of an offline page stay mounted
  // and share one session.
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
    // Takes over the choice of another view, which reports it.
    follow: (other) => put(other.value, other.count),
    get count() { return latest.count; },
  };
}

export function isOffline(header) {
  return header.session === "offline";
}
