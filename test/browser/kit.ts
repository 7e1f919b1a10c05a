/** Drives the dashboard of `dist/verk` in a real Chromium, and watches for what a page must never do. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { startBinary } from "../binary.ts";
import { type BrowserTab, CHROMIUM, openPage } from "../browser.ts";
import { makeKey } from "../cli.ts";
import { tempDir, until } from "../harness.ts";

export { CHROMIUM } from "../browser.ts";

export type Size = { width: number; height: number };
export const SIZES = {
  desktop: { width: 1440, height: 900 },
  tablet: { width: 768, height: 1024 },
  phone: { width: 375, height: 812 },
} as const satisfies Record<string, Size>;

type OpenOptions = { dark?: boolean; size?: Size };
export type Dashboard = Awaited<ReturnType<typeof openDashboard>>;

type StartOptions = OpenOptions & {
  signIn?: boolean;
  isAdmin?: boolean;
  args?: string[];
  env?: Record<string, string>;
};

/** A server and a browser, which is signed in with a new key of the scope `*` or `admin` unless `signIn` is false. */
export async function startDashboard(options: StartOptions = {}) {
  if (CHROMIUM === null)
    throw new Error("no chromium on this machine: skip the test with describe.skipIf(CHROMIUM === null)");
  const dir = tempDir();
  const key = options.isAdmin ? await makeKey(dir, "--scope", "admin") : {};
  const server = await startBinary({ dir, ...key, args: options.args ?? [], env: options.env ?? {} });
  const page = await openDashboard(server.url, options);
  if (options.signIn !== false) await page.signIn(await server.apiKey());
  return {
    server,
    page,
    async close() {
      await page.close();
      await server.kill("SIGKILL");
    },
  };
}

const WATCH = `window.shifted = 0; window.moved = []; new PerformanceObserver((list) => {
  for (const { hadRecentInput, value, sources } of list.getEntries()) {
    if (hadRecentInput) continue;
    window.shifted += value;
    const names = sources.map(({ node, previousRect: from, currentRect: to }) =>
      (node?.className ?? "") + " " + (node?.textContent ?? "").slice(0, 40) + " from " + [from.x, from.y].map(Math.round) + " to " + [to.x, to.y].map(Math.round));
    if (value > 0.01) moved.push(value.toFixed(3) + " by " + names.join(" and "));
  }
}).observe({ type: "layout-shift", buffered: true });
addEventListener("securitypolicyviolation", (event) => console.error("CSP report", event.violatedDirective, event.blockedURI));`;

export async function openDashboard(origin: string, { dark = false, size = SIZES.desktop }: OpenOptions = {}) {
  const { tab, close, ...page } = await openPage("about:blank", { dark, ...size });
  return {
    ...(await drive(page, origin, size)),
    close,
    /** Another tab of the same browser, with the same session. */
    tab: async () => await drive(await tab("about:blank"), origin, size),
  };
}

async function drive(page: BrowserTab, origin: string, size: Size) {
  await page.send("Page.addScriptToEvaluateOnNewDocument", { source: WATCH });
  await resize(page, size);
  const run = <T>(expression: string) => page.run<T>(expression);
  const text = () => run<string>("document.body.innerText");

  const waitFor = <T>(what: string, probe: () => T | Promise<T>, deadlineMs?: number) =>
    until(`${what}\n`, probe, deadlineMs).catch(async (error: unknown): Promise<never> => {
      const shown = await text().catch(() => "");
      throw new Error(`${String(error)}\nThe page shows:\n${shown.slice(0, 2_000)}\n${page.complaints.join("\n")}`);
    });

  /** Everything that no page may do, in words; an empty list is good. `expected`: errors that the test caused itself. */
  const faults = async ({ expected = /^$/ }: Expected = {}): Promise<string[]> => {
    const found = page.complaints.filter((each) => !expected.test(each)).map((each) => `console: ${each}`);
    const foreign = page.requests.filter((url) => !/^(data:|blob:|about:)/.test(url) && !url.startsWith(origin));
    found.push(...foreign.map((url) => `request off the origin: ${url}`));
    const shifted = await run<number>("window.shifted ?? 0");
    if (shifted > 0.05)
      found.push(`layout shift of ${shifted.toFixed(3)}: ${(await run<string[]>("window.moved")).join(" | ")}`);
    // not innerWidth: a phone zooms out until the whole width is seen
    const [scroll, width] = await run<[number, number]>(
      "[document.documentElement.scrollWidth, document.documentElement.clientWidth]",
    );
    if (scroll > width) found.push(`scrolls sideways: ${scroll} of ${width} px by ${await run<string>(WIDE)}`);
    return found;
  };

  /** Serious findings of axe-core, each with the elements. */
  const axe = async (): Promise<string[]> => {
    if (!(await run<boolean>("'axe' in window"))) await run(AXE);
    return await run<string[]>(FINDINGS);
  };

  return {
    ...page,
    origin,
    text,
    waitFor,
    faults,
    axe,
    /** The page at 1440, 768 and 375 px, and its serious findings of axe-core. An empty list is good. */
    async check(options: Expected = {}): Promise<string[]> {
      const found: string[] = [];
      for (const to of Object.values(SIZES)) {
        await resize(page, to);
        await run(DRAWN);
        found.push(...(await faults(options)).map((fault) => `${to.width} px: ${fault}`));
      }
      await resize(page, size);
      return [...found, ...(await axe())];
    },
    waitForText: (wanted: string, deadlineMs?: number) =>
      waitFor(`the text ${wanted}`, async () => (await text()).includes(wanted), deadlineMs),
    /** Opens an address and waits until nothing loads any more. */
    async at(path: string, deadlineMs?: number) {
      await page.send("Page.navigate", { url: origin + path });
      await waitFor(`the page ${path}`, () => run<boolean>(SETTLED), deadlineMs);
    },
    path: () => run<string>("location.pathname + location.search"),
    /** Signs in as the page does, without typing the key. */
    async signIn(key: string) {
      await page.send("Page.navigate", { url: `${origin}/` });
      await waitFor("the sign-in page", () => run<boolean>("!!document.querySelector('.gate, .app')"));
      const post = `fetch("/v1/browser_sessions", { method: "POST", headers: { authorization: "Bearer ${key}" } })`;
      const status = await run<number>(`${post}.then((answer) => answer.status)`);
      if (status !== 201) throw new Error(`sign-in answered ${status}`);
    },
    /**
     * A trusted click on the element that a screen reader calls so: `click("button", "Create my admin key")`. It waits until
     * the element stays where it is for two frames: a page that grows moves it between the look and the click.
     */
    async click(role: string, name: string) {
      const { x, y } = await waitFor(`${role} ${name}`, async () => {
        const before = await find(page, role, name);
        if (before) await run(DRAWN);
        const after = before && (await find(page, role, name));
        return after && after.x === before.x && after.y === before.y ? after : undefined;
      });
      for (const type of ["mousePressed", "mouseReleased"])
        await page.send("Input.dispatchMouseEvent", { type, x, y, button: "left", clickCount: 1 });
    },
    /** Drops files of this machine on an element, as a user does with the mouse. */
    async drop(role: string, name: string, files: readonly string[]) {
      const at = await waitFor(`${role} ${name}`, () => find(page, role, name));
      const data = { items: [], files, dragOperationsMask: 1 };
      for (const type of ["dragEnter", "dragOver", "drop"])
        await page.send("Input.dispatchDragEvent", { type, ...at, data });
    },
    /** True if an element with this role and name is in the page. */
    has: async (role: string, name: string) => (await nodesOf(page, role, name)).length > 0,
    /** Types into the focused element. */
    type: (value: string) => page.send("Input.insertText", { text: value }),
    press: (key: string, modifiers: "ctrl" | "shift" | undefined = undefined) => press(page, key, modifiers),
    /** Presses Tab until the focused element has this name, as a user without a mouse does. */
    async tabTo(name: string, most = 60) {
      for (let i = 0; i < most; i++) {
        if ((await run<string>(FOCUSED_NAME)) === name) return;
        await press(page, "Tab");
      }
      throw new Error(`Tab does not reach ${name}; the focus is on ${await run<string>(FOCUSED_NAME)}`);
    },
    /** The name of the focused element. */
    focused: () => run<string>(FOCUSED_NAME),
    /** Charts follow a new size one frame later. */
    async resize(to: Size) {
      await resize(page, to);
      await run(DRAWN);
    },
  };
}

type Expected = { expected?: RegExp };

const AXE = readFileSync(join(import.meta.dir, "../../node_modules/axe-core/axe.min.js"), "utf8");
const FINDINGS = `axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations
  .filter(({ impact }) => impact === "serious" || impact === "critical")
  .map(({ id, nodes }) => id + ": " + nodes.slice(0, 4).map((node) => node.html.slice(0, 200)).join(" | ")))`;
const SETTLED = `document.readyState === "complete" && !!document.querySelector("h1") &&
  !document.querySelector("[aria-busy=true]")`;
/** Elements that reach beyond the page and that no other element cuts off, the innermost last. */
const WIDE = `[...document.querySelectorAll("body *")].filter((at) => {
  if (at.getBoundingClientRect().right <= document.documentElement.clientWidth) return false;
  for (let up = at.parentElement; up !== document.body; up = up.parentElement)
    if (getComputedStyle(up).overflowX !== "visible") return false;
  return true;
}).slice(-4).map((at) => at.localName + "." + at.className + ": " + at.textContent.slice(0, 40)).join(" | ")`;
const DRAWN = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))";
const FOCUSED_NAME = `(() => { const { activeElement: e } = document;
  return e?.getAttribute("aria-label") ?? e?.labels?.[0]?.innerText ?? e?.innerText?.trim() ?? ""; })()`;

async function resize(page: BrowserTab, { width, height }: Size) {
  const mobile = width < 500;
  await page.send("Emulation.setDeviceMetricsOverride", { width, height, deviceScaleFactor: 1, mobile });
}

const CODES: Readonly<Record<string, number>> = {
  Backspace: 8,
  Tab: 9,
  Enter: 13,
  Escape: 27,
  " ": 32,
  ArrowLeft: 37,
  ArrowUp: 38,
  ArrowRight: 39,
  ArrowDown: 40,
};

async function press(page: BrowserTab, key: string, modifiers: "ctrl" | "shift" | undefined = undefined) {
  const text = key === "Enter" ? "\r" : key.length === 1 && modifiers !== "ctrl" ? key : undefined;
  const common = {
    key,
    code: key === " " ? "Space" : key.length === 1 ? `Key${key.toUpperCase()}` : key,
    windowsVirtualKeyCode: CODES[key] ?? key.toUpperCase().charCodeAt(0),
    modifiers: modifiers === "ctrl" ? 2 : modifiers === "shift" ? 8 : 0,
  };
  await page.send("Input.dispatchKeyEvent", { type: "keyDown", ...common, ...(text === undefined ? {} : { text }) });
  await page.send("Input.dispatchKeyEvent", { type: "keyUp", ...common });
}

type AxNode = { backendDOMNodeId?: number; ignored?: boolean };

async function nodesOf(page: BrowserTab, role: string, name: string): Promise<AxNode[]> {
  const { root } = (await page.send("DOM.getDocument", { depth: 0 })) as { root: { nodeId: number } };
  const query = { nodeId: root.nodeId, role, accessibleName: name };
  const { nodes } = (await page.send("Accessibility.queryAXTree", query)) as { nodes: AxNode[] };
  return nodes.filter(({ ignored }) => !ignored);
}

/** The middle of the element, scrolled into view; undefined if it is not there or covers no pixel yet. */
async function find(page: BrowserTab, role: string, name: string): Promise<{ x: number; y: number } | undefined> {
  const [node] = await nodesOf(page, role, name);
  if (node?.backendDOMNodeId === undefined) return undefined;
  const at = { backendNodeId: node.backendDOMNodeId };
  await page.send("DOM.scrollIntoViewIfNeeded", at);
  const { quads } = (await page.send("DOM.getContentQuads", at)) as { quads: number[][] };
  const [left = 0, top = 0, , , right = 0, bottom = 0] = quads[0] ?? [];
  return quads.length === 0 ? undefined : { x: (left + right) / 2, y: (top + bottom) / 2 };
}
