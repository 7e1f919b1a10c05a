/** A user with a mouse, and a user who has a keyboard alone. Both name what they use as a screen reader does. */
import type { Dashboard } from "./kit.ts";

export type Hands = {
  /** A button, a link or a box to tick. */
  use: (name: string) => Promise<void>;
  /** Replaces the text of a field. */
  write: (label: string, text: string) => Promise<void>;
  /** Takes the option of a list whose text begins so. */
  choose: (label: string, option: string) => Promise<void>;
  /** An element without a name of its own, such as a row whose text has a time. */
  useAt: (selector: string) => Promise<void>;
};

const ROLES = ["button", "link", "checkbox", "tab"];
const MOST_TABS = 250; // twice around a long page
const CHOSEN = "document.activeElement.selectedOptions?.[0]?.text ?? ''";

export function mouse(page: Dashboard): Hands {
  const use = async (name: string) => {
    const role = await page.waitFor(`something called ${name} to click`, async () => {
      for (const each of ROLES) if (await page.has(each, name)) return each;
      return undefined;
    });
    await page.click(role, name);
  };
  return {
    use,
    async write(label, text) {
      const role = await page.waitFor(`the field ${label}`, async () => {
        for (const each of ["textbox", "spinbutton", "searchbox"]) if (await page.has(each, label)) return each;
        return undefined;
      });
      await page.waitFor(`the focus on ${label}`, async () => {
        await page.click(role, label); // again, if the field has moved meanwhile
        return (await page.focused()) === label;
      });
      await page.press("a", "ctrl");
      await page.type(text);
    },
    // The browser draws the list outside of the page, where a trusted click cannot go.
    async choose(label, option) {
      const pick = `(() => {
        const select = [...document.querySelectorAll("select")].find((at) => at.labels[0]?.innerText === ${JSON.stringify(label)});
        const found = [...(select?.options ?? [])].find((at) => at.text.startsWith(${JSON.stringify(option)}));
        if (!found) return false;
        select.value = found.value;
        return select.dispatchEvent(new Event("change", { bubbles: true }));
      })()`;
      await page.waitFor(`${option} in the list ${label}`, () => page.run<boolean>(pick));
    },
    async useAt(selector) {
      // A dialog that closes still covers the page for a moment.
      const uncovered = `(() => {
        const at = document.querySelector(${JSON.stringify(selector)});
        at?.scrollIntoView({ block: "center" });
        const { x = 0, y = 0, width = 0, height = 0 } = at?.getBoundingClientRect() ?? {};
        const middle = { x: x + width / 2, y: y + height / 2 };
        return at?.contains(document.elementFromPoint(middle.x, middle.y)) ? middle : undefined;
      })()`;
      const { x, y } = await page.waitFor(`${selector}, uncovered`, () =>
        page.run<{ x: number; y: number } | undefined>(uncovered),
      );
      for (const type of ["mousePressed", "mouseReleased"])
        await page.send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
    },
  };
}

export function keyboard(page: Dashboard): Hands {
  /** Waits for what is to come, then goes there by Tab alone. */
  const goTo = async (name: string) => {
    const isThere = `[...document.querySelectorAll("button:not(:disabled), a, input, select, textarea")].some((at) =>
      (at.getAttribute("aria-label") ?? at.labels?.[0]?.innerText ?? at.innerText?.trim()) === ${JSON.stringify(name)})`;
    await page.waitFor(`something called ${name}`, () => page.run<boolean>(isThere));
    await page.tabTo(name, MOST_TABS);
  };
  return {
    async use(name) {
      await goTo(name);
      const isBox = await page.run<boolean>("document.activeElement.type === 'checkbox'");
      await page.press(isBox ? " " : "Enter");
    },
    async write(label, text) {
      await goTo(label);
      await page.press("a", "ctrl");
      await page.type(text);
    },
    async choose(label, option) {
      await goTo(label);
      const has = `[...document.activeElement.options].some((at) => at.text.startsWith(${JSON.stringify(option)}))`;
      await page.waitFor(`${option} in the list ${label}`, () => page.run<boolean>(has));
      const isChosen = async () => (await page.run<string>(CHOSEN)).startsWith(option);
      for (const key of ["ArrowDown", "ArrowUp"])
        for (let i = 0; i < 20 && !(await isChosen()); i++) await page.press(key);
      if (!(await isChosen())) throw new Error(`the arrow keys do not reach ${option} of ${label}`);
    },
    async useAt(selector) {
      const text = JSON.stringify(selector);
      await page.waitFor(selector, () => page.run<boolean>(`!!document.querySelector(${text})`));
      const isOn = () => page.run<boolean>(`document.activeElement.matches(${text})`);
      for (let i = 0; i < MOST_TABS && !(await isOn()); i++) await page.press("Tab");
      if (!(await isOn())) throw new Error(`Tab does not reach ${selector}`);
      await page.press("Enter");
    },
  };
}

/** Presses a button that opens the chooser of the system, and gives it these files. `input`: the field behind the button. */
export async function give(page: Dashboard, hands: Hands, [button, input]: [string, string], files: readonly string[]) {
  await page.send("Page.setInterceptFileChooserDialog", { enabled: true });
  await hands.useAt(button);
  const { root } = (await page.send("DOM.getDocument", { depth: 0 })) as { root: { nodeId: number } };
  const found = await page.send("DOM.querySelector", { nodeId: root.nodeId, selector: input });
  await page.send("DOM.setFileInputFiles", { nodeId: (found as { nodeId: number }).nodeId, files: [...files] });
}
