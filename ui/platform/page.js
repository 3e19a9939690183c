// Streamlit's own page, as components see it: its main part, what closes at Escape, a page that
// runs no script, the link past the sidebar, tooltips and charts, and the addresses that it pushes.
export const MAIN = "[data-testid=stMain]";
export const OPEN = "[data-testid=stPopoverBody], [role=combobox][aria-expanded=true]";
export const IDLE = "[data-testid=stApp][data-test-script-state=notRunning]";
export const SKIP = "[data-testid=stSkipToContent]";
export const HELPS = "[data-testid=stTooltipHoverTarget], [data-testid=stVegaLiteChart]";

// Streamlit opens a page at its bare address and then pushes the one with the view's parameters, so
// that the first Back would seem to do nothing: the second address takes the place of the first.
export function replaceBareAddresses() {
  const { pushState } = history;
  keepColourKeys(); // of charts drawn before this script was here
  if (pushState.replacesBare) return;
  history.pushState = (state, title, address) => {
    const to = new URL(address ?? "", location.href);
    const bare = !location.search && to.search && to.pathname === location.pathname;
    (bare ? history.replaceState : pushState).call(history, state, title, address);
    keepColourKeys();
  };
  history.pushState.replacesBare = true;
}

// Vega's colour keys name their gradients by the whole address, which changes.
function keepColourKeys() {
  for (const key of document.querySelectorAll("svg.marks [fill^='url(']")) {
    key.setAttribute("fill", key.getAttribute("fill").replace(/\(.*#/, "(#"));
  }
}
