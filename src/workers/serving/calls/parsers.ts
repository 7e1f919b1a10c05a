/**
 * Finds tool calls in a text that arrives in pieces. Text before a call passes at once. From the marker on, the text is
 * held until the call is complete. Text that only looks like a call is returned as content. Pure.
 */
export type ParsedCall = { name: string; arguments: string };
/** A call without a name continues the arguments of the call before it. */
export type CallPiece = { name?: string; arguments: string };
export type Parsed = { content: string; calls: CallPiece[] };
export type CallParser = { push: (text: string) => Parsed; end: () => Parsed };

const nothing = (): Parsed => ({ content: "", calls: [] });

export function toCall(value: unknown): ParsedCall | undefined {
  if (typeof value !== "object" || value === null || Array.isArray(value)) return undefined;
  const { name, arguments: given, parameters } = value as Record<string, unknown>;
  const args = given ?? parameters ?? {};
  if (typeof name !== "string" || name === "") return undefined;
  if (typeof args === "string") return isObject(parse(args)) ? { name, arguments: args } : undefined;
  return isObject(args) ? { name, arguments: JSON.stringify(args) } : undefined;
}

const isObject = (value: unknown) => typeof value === "object" && value !== null && !Array.isArray(value);

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Returns how many characters at the end of `text` may be the beginning of `marker`. */
export function openEnd(text: string, marker: string): number {
  for (let length = Math.min(text.length, marker.length - 1); length > 0; length--)
    if (marker.startsWith(text.slice(-length))) return length;
  return 0;
}

const OPEN = "<tool_call>";
const CLOSE = "</tool_call>";

/** The text of a call up to its arguments, which must be an object. */
const CALL_HEAD = /^\s*\{\s*"name"\s*:\s*"([^"\\]+)"\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)/;

/** Finds the end of an object that arrives in pieces. Returns how many characters of `text` belong to it. */
function createObjectScan() {
  let depth = 0;
  let quoted = false;
  let escaped = false;
  let done = false;
  return (text: string): number => {
    for (let i = 0; i < text.length; i++) {
      if (done) return i;
      const char = text[i];
      if (escaped) escaped = false;
      else if (quoted) {
        if (char === "\\") escaped = true;
        else if (char === '"') quoted = false;
      } else if (char === '"') quoted = true;
      else if (char === "{" || char === "[") depth++;
      else if (char === "}" || char === "]") done = --depth === 0;
    }
    return text.length;
  };
}

/**
 * Hermes, Qwen: <tool_call>{…}</tool_call>, as often as needed. `pieces`: a call is returned as soon as its name is
 * known, and its arguments as they come.
 */
export function createTagParser(pieces = false): CallParser {
  let scan: ((text: string) => number) | undefined; // set while the arguments of a call are passed on
  const passArguments = (out: Parsed) => {
    const head = scan ? null : CALL_HEAD.exec(held);
    if (head) {
      scan = createObjectScan();
      out.calls.push({ name: head[1] as string, arguments: "" });
      held = held.slice(head[0].length);
    }
    const size = scan?.(held) ?? 0;
    if (size === 0) return;
    out.calls.push({ arguments: held.slice(0, size) });
    held = held.slice(size);
  };
  let held = "";
  let inside = false;
  let called = false;
  const step = (out: Parsed): boolean => {
    if (inside && pieces) passArguments(out);
    const at = held.indexOf(inside ? CLOSE : OPEN);
    if (at < 0) return false;
    const before = held.slice(0, at);
    held = held.slice(at + (inside ? CLOSE : OPEN).length);
    if (inside) called = close(before, CLOSE, out) || called;
    else if (!called || before.trim() !== "") out.content += before; // drop line breaks between calls
    inside = !inside;
    return true;
  };
  const close = (text: string, tail: string, out: Parsed): boolean => {
    if (scan) {
      scan = undefined;
      return true;
    }
    const call = toCall(parse(text));
    if (call) out.calls.push(call);
    else out.content += OPEN + text + tail;
    return call !== undefined;
  };
  return {
    push(text) {
      held += text;
      const out = nothing();
      while (step(out));
      if (!inside) {
        const open = openEnd(held, OPEN);
        const keep = called && held.slice(0, held.length - open).trim() === "" ? held.length : open;
        out.content += held.slice(0, held.length - keep);
        held = held.slice(held.length - keep);
      }
      return out;
    },
    end() {
      const out = nothing();
      if (inside)
        close(held, "", out); // the model ended before it closed the tag
      else if (!called || held.trim() !== "") out.content = held;
      held = "";
      return out;
    },
  };
}

const PYTHON_TAG = "<|python_tag|>";
const FIRST_KEYS = ["name", "type", "function", "parameters"];

/** Llama 3: the whole answer is {"name": …, "parameters": …}, or several of them separated by semicolons. */
export function createObjectParser(names: readonly string[]): CallParser {
  let held = "";
  let flowing = false;
  const flow = (): Parsed => {
    const content = held;
    held = "";
    flowing = true;
    return { content, calls: [] };
  };
  return {
    push(text) {
      held += text;
      if (flowing) return flow();
      return mayBeObject(held) ? nothing() : flow();
    },
    end() {
      if (flowing || held === "") return flow();
      const body = held.trim();
      const calls = objectsIn(body.startsWith(PYTHON_TAG) ? body.slice(PYTHON_TAG.length) : body).map(toCall);
      const good = calls.filter((call) => call !== undefined && names.includes(call.name)) as ParsedCall[];
      return calls.length > 0 && good.length === calls.length ? { content: "", calls: good } : flow();
    },
  };
}

function mayBeObject(text: string): boolean {
  let body = text.trimStart();
  if (PYTHON_TAG.startsWith(body)) return true;
  if (body.startsWith(PYTHON_TAG)) body = body.slice(PYTHON_TAG.length).trimStart();
  if (body === "") return true;
  const key = /^\{\s*(?:"([^"]*)("?))?/.exec(body);
  if (!key) return false;
  const [whole, name, closed] = key;
  if (name === undefined) return whole === body;
  return closed ? FIRST_KEYS.includes(name) : FIRST_KEYS.some((known) => known.startsWith(name));
}

/** Parses consecutive objects. Returns none if any other text is between them. */
function objectsIn(text: string): unknown[] {
  const found: unknown[] = [];
  for (let rest = text.trim(); rest !== ""; ) {
    const end = endOfObject(rest);
    const value = end === undefined ? undefined : parse(rest.slice(0, end));
    if (value === undefined) return [];
    found.push(value);
    rest = rest.slice(end).replace(/^[\s;,]+/, "");
  }
  return found;
}

function endOfObject(text: string): number | undefined {
  let depth = 0;
  let quoted = false;
  for (let i = 0; i < text.length; i++) {
    const char = text[i];
    if (quoted) {
      if (char === "\\") i++;
      else if (char === '"') quoted = false;
    } else if (char === '"') quoted = true;
    else if (char === "{" || char === "[") depth++;
    else if ((char === "}" || char === "]") && --depth === 0) return i + 1;
  }
  return undefined;
}

const MARKER = "[TOOL_CALLS]";

/** Mistral: [TOOL_CALLS][{…}, …], to the end of the answer. The marker itself may be invisible. */
export function createArrayParser(opened: boolean): CallParser {
  let held = "";
  let state: "start" | "content" | "calls" = opened ? "calls" : "start";
  return {
    push(text) {
      held += text;
      const out = nothing();
      if (state === "start") {
        if (/^\s*(\[\s*(\{\s*("n?)?)?)?$/.test(held) || openEnd(held, MARKER) === held.length) return out;
        state = /^\s*\[\s*\{\s*"name"/.test(held)
          ? "calls"
          : /^\s*\[\s*\{\s*"(n|na|nam|name)$/.test(held)
            ? "start"
            : "content";
      }
      const at = state === "content" ? held.indexOf(MARKER) : -1;
      if (at >= 0) {
        out.content = held.slice(0, at);
        held = held.slice(at + MARKER.length);
        state = "calls";
      } else if (state === "content") {
        const keep = openEnd(held, MARKER);
        out.content = held.slice(0, held.length - keep);
        held = held.slice(held.length - keep);
      }
      return out;
    },
    end() {
      const text = held;
      held = "";
      const value = state === "calls" ? parse(text) : undefined;
      const calls = Array.isArray(value) ? value.map(toCall) : [toCall(value)];
      if (calls.length > 0 && calls.every((call) => call !== undefined)) return { content: "", calls };
      return { content: text, calls: [] };
    },
  };
}
