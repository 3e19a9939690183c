// A term that leads to its entry in the glossary, a name; plain text in offline pages, which
// have no glossary. `IN_APP` comes from whoever mounts the component.
import { make } from "./view.js";

export function term(text, entry) {
  if (!IN_APP) return make("span", "", text);
  const href = `glossary?word=${encodeURIComponent(entry)}`;
  const link = make("a", "term", text, { href, target: "_blank", rel: "noopener" });
  link.style.cssText = "color:inherit;text-decoration:underline dotted;text-underline-offset:0.2em";
  return link;
}
