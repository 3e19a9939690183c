// A term that links to a glossary entry; plain text in offline pages, which have no glossary. Mounting
// code defines `IN_APP`.
import { make } from "./view.js";

export function term(text, entry) {
  if (!IN_APP) return make("span", "", text);
  const href = `glossary?word=${encodeURIComponent(entry)}`;
  const link = make("a", "term", text, { href, target: "_blank", rel: "noopener" });
  link.style.cssText = "color:inherit;text-decoration:underline dotted;text-underline-offset:0.2em";
  return link;
}
