// A browser that translates the page puts <font> elements in place of text nodes. React keeps the text
// nodes: it would write new text where nobody sees it, and fail to remove them or to insert beside them.
// So the text node takes its place again before React changes it; the browser then translates the new text.
// Browsers do their part outside the page's own JavaScript, so only React meets the methods below.
{
  // What a model read, wrote or computed, and what is drawn: never translated.
  const NUMBERS = "[data-testid=stSliderThumbValue], [data-testid=stSliderTickBar]";
  const VERBATIM = `code, kbd, svg, td, textarea, .katex, [role=img], [role=option], [data-tag], `
    + `.st-key-examples button, [class*=st-key-looks_] button, ${NUMBERS}`;
  const NUMBER = /^[-+−\d.,:%×/ ]+$/; // in bold, within prose
  const mark = (node) => node.setAttribute("translate", "no");

  const standIns = new WeakMap(); // the element for each replaced text node, and the reverse
  const isFree = (node) => node?.nodeName === "FONT" && !standIns.has(node);

  // Puts a text node in the place of the outermost element that stands for it.
  const putBack = (text) => {
    let outer = standIns.get(text) ?? text;
    while (outer.parentNode?.nodeName === "FONT") outer = outer.parentNode;
    if (outer !== text) outer.replaceWith(text);
  };

  const observer = new MutationObserver((records) => {
    for (const { type, target, addedNodes, removedNodes, previousSibling, nextSibling } of records) {
      if (type === "characterData") putBack(target);
      for (const node of addedNodes) {
        if (node.matches?.(VERBATIM)) mark(node);
        node.querySelectorAll?.(VERBATIM).forEach(mark);
        for (const bold of node.querySelectorAll?.("strong") ?? []) if (NUMBER.test(bold.textContent)) mark(bold);
      }
      const text = [...removedNodes].find((node) => node.nodeType === Node.TEXT_NODE);
      const font = [...addedNodes, previousSibling, nextSibling].find(isFree);
      if (!font || !text || text.isConnected) continue;
      standIns.set(text, font).set(font, text);
      observer.observe(text, { characterData: true });
    }
  });
  observer.observe(document, { childList: true, subtree: true });

  for (const name of ["removeChild", "insertBefore", "appendChild"]) {
    const change = Node.prototype[name];
    Node.prototype[name] = function (...nodes) {
      for (const node of nodes) if (node?.nodeType === Node.TEXT_NODE) putBack(node);
      return change.apply(this, nodes);
    };
  }
}
