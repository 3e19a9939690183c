// What the reader chose in a view, in agreement with mount.py: {held, tell(next)}; `tell(next, said)`
// where those who listen know it by another name.
//
// A message says what was chosen when it was made. Choices made here since then win over it, also
// when the view is mounted again with the same message; a message made after them wins over them.
function agree(component, header) {
  // A view that is mounted again has another key; `session` names it in mount.py. Views of a page
  // without a server stay where they are and have one session.
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
