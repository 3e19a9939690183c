// The reader's choice in a view, kept in step with mount.py. Returns: {held, tell(next)}, or
// `tell(next, said)` to report the choice under another name.
//
// A message carries the choice at the time it was made. Later choices made here take precedence,
// even if the view is mounted again with the same message; a newer message replaces them.
function agree(component, header) {
  // A remounted view has another key, so mount.py identifies it by `session`. Views of an offline
  // page stay mounted and share one session.
  const view = header.session === "still" ? component.key : header.session;
  const all = (window[Symbol.for("headlight.held")] ??= new Map());
  let memory = all.get(view);
  if (!memory || header.count >= memory.count) {
    memory = { count: header.count, held: header.held };
    all.set(view, memory);
  }
  const tell = (next, said = next) => {
    memory = { count: memory.count + 1, held: next };
    all.set(view, memory);
    component.setTriggerValue?.("held", { count: memory.count, held: said });
  };
  return { get held() { return memory.held; }, tell };
}
