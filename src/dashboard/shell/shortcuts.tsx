/** Keys that work on every page. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { Dialog } from "../kit/dialog.tsx";
import { PAGES } from "../pages/pages.ts";
import { match } from "./match.ts";
import { navigate, path } from "./router.ts";

export const isPaletteOpen = signal(false);
export const openPalette = () => {
  isPaletteOpen.value = true;
};
const isHelpOpen = signal(false);
export const openHelp = () => {
  isHelpOpen.value = true;
};
const JUMP_MS = 1_000;

const isTyping = ({ target }: Event) =>
  target instanceof HTMLElement && (target.isContentEditable || /^(INPUT|TEXTAREA|SELECT)$/.test(target.tagName));

const jumps = () => PAGES.flatMap(({ jump, path, title }) => (jump === undefined ? [] : [{ jump, path, title }]));

/** Keys of the page that is shown. */
const keysOf = (address: string) => PAGES.find((page) => match(page.path, address))?.keys ?? [];

export function Shortcuts() {
  useEffect(() => {
    let armedAt = Number.NEGATIVE_INFINITY; // time of the last `g`
    const onKey = (event: KeyboardEvent) => {
      if ((event.metaKey || event.ctrlKey) && event.key.toLowerCase() === "k") {
        event.preventDefault();
        isPaletteOpen.value = !isPaletteOpen.value;
        return;
      }
      if (event.metaKey || event.ctrlKey || event.altKey || isTyping(event) || document.querySelector("dialog[open]"))
        return;
      const target = jumps().find(({ jump }) => jump === event.key);
      if (performance.now() - armedAt < JUMP_MS && target) {
        armedAt = Number.NEGATIVE_INFINITY;
        event.preventDefault();
        navigate(target.path);
      } else if (event.key === "g") armedAt = performance.now();
      else if (event.key === "?") openHelp();
    };
    document.addEventListener("keydown", onKey);
    return () => document.removeEventListener("keydown", onKey);
  }, []);
  if (!isHelpOpen.value) return null;
  const close = () => {
    isHelpOpen.value = false;
  };
  return (
    <Dialog title="Keyboard" onClose={close}>
      <dl class="facts keys">
        {[
          ["Search or jump to", "Ctrl K or ⌘K"],
          ["This list", "?"],
          ["Close", "Esc"],
          ...keysOf(path.value),
          ...jumps().map(({ title, jump }) => [title, `g ${jump}`]),
        ].map(([what, keys]) => (
          <div key={what}>
            <dt>{what}</dt>
            <dd>
              <kbd>{keys}</kbd>
            </dd>
          </div>
        ))}
      </dl>
    </Dialog>
  );
}
