import { rmSync } from "node:fs";
import { tempDir } from "./harness.ts";

/** The browser the page tests drive; where there is none they are skipped. */
export const CHROMIUM = Bun.which("chromium") ?? Bun.which("chromium-browser") ?? Bun.which("google-chrome");

type Params = Record<string, unknown>;
type Message = {
  id?: number;
  method?: string;
  params?: Params;
  result?: Params;
  error?: { message: string };
  sessionId?: string;
};
export type BrowserPage = Awaited<ReturnType<typeof openPage>>;
export type BrowserTab = Awaited<ReturnType<typeof openTab>>;

/** A real browser over its DevTools socket. Everything it asks the network for is recorded. */
export async function openPage(url: string, options: { dark?: boolean; width?: number; height?: number } = {}) {
  const profile = tempDir();
  const quiet = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-extensions"];
  const still = ["--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-sync"];
  const size = `--window-size=${options.width ?? 1440},${options.height ?? 900}`;
  const child = Bun.spawn(
    [
      CHROMIUM ?? "chromium",
      ...quiet,
      ...still,
      size,
      "--remote-debugging-port=0",
      `--user-data-dir=${profile}`,
      "about:blank",
    ],
    { stdout: "ignore", stderr: "pipe" },
  );
  const link = await connect(await endpoint(child.stderr));
  const page = await openTab(link, url, options);
  return {
    ...page,
    /** Another tab of the same browser, with the same cookies. */
    tab: (address: string) => openTab(link, address, options),
    async close() {
      link.close();
      child.kill("SIGKILL");
      await child.exited;
      rmSync(profile, { recursive: true, force: true });
    },
  };
}

async function openTab(link: Awaited<ReturnType<typeof connect>>, url: string, options: { dark?: boolean }) {
  const { targetId } = await link.send("Target.createTarget", { url: "about:blank" });
  const { sessionId } = await link.send("Target.attachToTarget", { targetId, flatten: true });
  const send = (method: string, params: Params = {}) => link.send(method, params, sessionId as string);

  const requests: string[] = [];
  const complaints: string[] = [];
  link.on(({ method, params = {}, sessionId: from }) => {
    if (from !== sessionId) return;
    const about = JSON.stringify(params);
    const { request, entry } = params as { request: { url: string }; entry: { level: string } };
    // A form that was not sent asks before the page is left. The test answers yes.
    if (method === "Page.javascriptDialogOpening") void send("Page.handleJavaScriptDialog", { accept: true });
    if (method === "Network.requestWillBeSent") requests.push(request.url);
    if (method === "Runtime.exceptionThrown") complaints.push(about);
    if (method === "Runtime.consoleAPICalled" && params["type"] === "error") complaints.push(about);
    if (method === "Log.entryAdded" && entry.level === "error") complaints.push(about);
  });
  for (const domain of ["Page", "Network", "Runtime", "Log"]) await send(`${domain}.enable`);
  if (options.dark)
    await send("Emulation.setEmulatedMedia", { features: [{ name: "prefers-color-scheme", value: "dark" }] });
  await send("Page.navigate", { url });

  return {
    requests,
    complaints,
    send,
    /** Runs an expression in the page, awaiting a promise. */
    async run<T>(expression: string): Promise<T> {
      const answer = await send("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true });
      if (answer["exceptionDetails"]) throw new Error(JSON.stringify(answer["exceptionDetails"]));
      return (answer["result"] as { value: T }).value;
    },
    async press(key: string, text?: string) {
      await send("Input.dispatchKeyEvent", { type: "keyDown", key, ...(text === undefined ? {} : { text }) });
      await send("Input.dispatchKeyEvent", { type: "keyUp", key });
    },
    async screenshot(): Promise<Buffer> {
      return Buffer.from((await send("Page.captureScreenshot", { format: "png" }))["data"] as string, "base64");
    },
  };
}

async function endpoint(stderr: ReadableStream<Uint8Array>): Promise<string> {
  let said = "";
  for await (const chunk of stderr) {
    said += new TextDecoder().decode(chunk);
    const found = /DevTools listening on (ws:\S+)/.exec(said)?.[1];
    if (found) return found;
  }
  throw new Error(`the browser did not start:\n${said}`);
}

async function connect(url: string) {
  const socket = new WebSocket(url);
  const waiting = new Map<number, PromiseWithResolvers<Params>>();
  const listeners: ((message: Message) => void)[] = [];
  let last = 0;
  socket.onmessage = (event) => {
    const message = JSON.parse(String(event.data)) as Message;
    const waiter = waiting.get(message.id ?? -1);
    if (!waiter) for (const listener of listeners) listener(message);
    else if (message.error) waiter.reject(new Error(message.error.message));
    else waiter.resolve(message.result ?? {});
  };
  await new Promise((resolve, reject) => {
    socket.onopen = resolve;
    socket.onerror = reject;
  });
  return {
    on: (listener: (message: Message) => void) => void listeners.push(listener),
    send(method: string, params: Params = {}, sessionId?: string): Promise<Params> {
      const waiter = Promise.withResolvers<Params>();
      waiting.set(++last, waiter);
      socket.send(JSON.stringify({ id: last, method, params, ...(sessionId === undefined ? {} : { sessionId }) }));
      return waiter.promise;
    },
    close: () => socket.close(),
  };
}
