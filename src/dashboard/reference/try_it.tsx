/** Sends the request of the form from this page, and shows the answer as it comes. */
import { useRef, useState } from "preact/hooks";
import type { BrowserSession } from "../../resources/access/browser_sessions/schema.ts";
import type { Operation, Parameter } from "./contract.ts";
import { targetOf, type Values, variableOf } from "./example.ts";
import { apiKey, isSignedIn } from "./key.ts";
import { Code } from "./text.tsx";

type TryProps = {
  operation: Operation;
  values: Values;
  body: string | undefined;
  onValue: (name: string, value: string) => void;
  onBody: (body: string) => void;
};
type Received = { status: number; words: string; ms: number; requestId: string | null; text: string; isJson: boolean };

export function TryIt({ operation, values, body, onValue, onBody }: TryProps) {
  const [hint, setHint] = useState("");
  const [received, setReceived] = useState<Received | undefined>(undefined);
  const [isBusy, setIsBusy] = useState(false);
  const stop = useRef<AbortController | undefined>(undefined);
  const form = useRef<HTMLFormElement>(null);
  const { parameters, auth, method } = operation;

  const submit = async () => {
    setHint("");
    const missing = parameters.find(({ in: where, name }) => where === "path" && (values[name] ?? "") === "");
    if (missing) {
      setHint(`Fill in ${missing.name}`);
      return form.current?.querySelector<HTMLInputElement>(`[name="${missing.name}"]`)?.focus();
    }
    if (auth !== null && apiKey.value === "" && !isSignedIn()) {
      setHint("Enter an API key at the top, or sign in to the dashboard");
      return document.getElementById("key")?.focus();
    }
    stop.current = new AbortController();
    setIsBusy(true);
    setReceived(undefined);
    const { signal } = stop.current;
    await exchange(operation, { values, body, signal }, setReceived).catch((error: Error) => {
      if (!signal.aborted) setHint(`The server does not answer: ${error.message}`);
    });
    setIsBusy(false);
  };

  return (
    <details class="reference-try try">
      <summary>Try it</summary>
      <form
        ref={form}
        noValidate
        onSubmit={(event) => {
          event.preventDefault();
          void submit();
        }}
      >
        {parameters.map((parameter) => (
          <Input
            key={parameter.name}
            of={parameter}
            path={operation.path}
            value={values[parameter.name] ?? ""}
            onInput={(value) => onValue(parameter.name, value)}
          />
        ))}
        {body !== undefined && (
          <label>
            <span>Body</span>
            <textarea
              class="mono"
              rows={Math.min(16, body.split("\n").length + 1)}
              spellcheck={false}
              value={body}
              onInput={(event) => onBody(event.currentTarget.value)}
            />
          </label>
        )}
        <div class="row">
          <button type="submit" class={`btn ${method === "delete" ? "danger" : "primary"}`} disabled={isBusy}>
            Send
          </button>
          {isBusy && (
            <button type="button" class="btn" onClick={() => stop.current?.abort()}>
              Stop
            </button>
          )}
          <span class="bad" role="alert">
            {hint}
          </span>
        </div>
      </form>
      <div class="answer" aria-live="polite">
        {received && <Answer of={received} />}
      </div>
    </details>
  );
}

type InputProps = { of: Parameter; path: string; value: string; onInput: (value: string) => void };

const Input = ({ of: { name, in: where, required, schema }, path, value, onInput }: InputProps) => (
  <label>
    <span>
      <code>{name}</code>
      {required && <b>required</b>}
    </span>
    <input
      name={name}
      class="mono"
      value={value}
      placeholder={where === "path" ? variableOf(path, name) : String(schema.default ?? "")}
      autocomplete="off"
      spellcheck={false}
      onInput={(event) => onInput(event.currentTarget.value)}
    />
  </label>
);

const Answer = ({ of: { status, words, ms, requestId, text, isJson } }: { of: Received }) => (
  <>
    <div class="reference-code">
      <header>
        <b class={status < 400 ? "good" : "bad"}>
          {status} {words}
        </b>
        <span>{ms} ms</span>
      </header>
      <Code label="Answer" text={text} isPlain={!isJson} wraps />
    </div>
    {requestId !== null && (
      <small class="muted">
        Request <code>{requestId}</code>
      </small>
    )}
  </>
);

const MOST_SHOWN = 100_000; // characters; a stream may run for days

type Sent = { values: Values; body: string | undefined; signal: AbortSignal };

async function exchange(operation: Operation, { values, body, signal }: Sent, show: (answer: Received) => void) {
  const started = performance.now();
  const response = await fetch(targetOf(operation, values), {
    method: operation.method.toUpperCase(),
    headers: {
      ...(await credentials(operation)),
      ...(body === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(body === undefined ? {} : { body }),
    signal,
    cache: "no-store",
  });
  const isJson = response.headers.get("content-type")?.includes("json") ?? false;
  const received = {
    status: response.status,
    words: response.statusText,
    ms: Math.round(performance.now() - started),
    requestId: response.headers.get("x-request-id"),
    isJson: false,
    text: "",
  };
  show(received);
  const decoder = new TextDecoder();
  const reader = response.body?.getReader();
  let text = "";
  for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
    text += decoder.decode(part.value, { stream: true });
    if (!isJson) text = text.slice(-MOST_SHOWN);
    show({ ...received, text });
  }
  if (isJson) show({ ...received, isJson, text: JSON.stringify(JSON.parse(text), null, 2) });
}

/** The key of the top bar, or the session of the dashboard. */
async function credentials({ auth, method }: Operation): Promise<Record<string, string>> {
  const key = apiKey.value;
  if (auth === null) return {};
  if (key !== "") return auth === "x-api-key" ? { "x-api-key": key } : { authorization: `Bearer ${key}` };
  if (method === "get") return {};
  const current = await fetch("/v1/browser_sessions/current", { cache: "no-store" });
  return current.ok ? { "x-verk-csrf": ((await current.json()) as BrowserSession).csrf_token } : {};
}
