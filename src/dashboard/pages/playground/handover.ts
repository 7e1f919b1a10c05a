/** The one way other pages open the playground. A link is enough for what `playgroundHref` of link.ts can hold. */
import { navigate } from "../../shell/router.ts";
import { type Handover, playgroundHref } from "./link.ts";

let waiting: Handover | undefined; // in memory only: messages need no storage of the browser

/** Opens the playground. Texts that are too long for an address are handed over all the same. */
export function openInPlayground(handover: Handover) {
  waiting = handover;
  navigate(playgroundHref(handover));
}

/** The playground takes it once, when it opens. */
export function takeHandover(): Handover | undefined {
  const taken = waiting;
  waiting = undefined;
  return taken;
}
